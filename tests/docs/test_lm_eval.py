"""A merged folder under lm-evaluation-harness, as docs/tasks.md says; skipped where that is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers

from helpers.random_models import random_model
from helpers.task_files import WORDS, add_tokenizer
from onebasin import Checkpoint
from onebasin.checkpoint.stock import stock_model

lm_eval = pytest.importorskip("lm_eval", reason="pip install 'lm-eval[hf]'")
pytest.importorskip("accelerate", reason="pip install 'lm-eval[hf]'")

TASK = """
task: films
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{text}}"
doc_to_choice: ["good", "bad"]
doc_to_target: "{{label}}"
metric_list: [{metric: acc}]
"""


@pytest.mark.filterwarnings("default")  # those of another library
def test_the_harness_reads_a_merged_folder(tmp_path: Path, cli, monkeypatch) -> None:
    """Its accuracy is that of the merged model's own logits."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=32, tie_word_embeddings=False, pad_token_id=0,
    )  # fmt: skip
    for seed in (0, 1):
        random_model("LlamaForCausalLM", config, seed).save_pretrained(tmp_path / f"m{seed}")
        add_tokenizer(tmp_path / f"m{seed}", eos_token="[PAD]")
    merged = tmp_path / "merged"
    assert cli("merge", tmp_path / "m0", tmp_path / "m1", "--method", "weight", "-o", merged, "--quiet")[0] == 0
    texts = ["very good film", "bad film", "film good very bad", "very very", "good bad good film", "film"]
    lines = [json.dumps({"text": text, "label": i % 2}) for i, text in enumerate(texts)]
    (tmp_path / "films.jsonl").write_text("\n".join(lines))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "films.yaml").write_text(TASK.replace("FILE", str(tmp_path / "films.jsonl")))
    from lm_eval.tasks import TaskManager

    found = lm_eval.simple_evaluate(
        model="hf", model_args=f"pretrained={merged},dtype=float32", tasks=["films"], device="cpu", batch_size=1,
        task_manager=TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False),
    )  # fmt: skip
    model, right = stock_model(Checkpoint.open(merged), torch.float32), 0
    for i, text in enumerate(texts):
        ids = torch.tensor([[WORDS.index(word) for word in text.split()]])
        with torch.no_grad():
            last = model(input_ids=ids).logits[0, -1]
        right += int(last[WORDS.index("good")] < last[WORDS.index("bad")]) == i % 2
    assert found["results"]["films"]["acc,none"] == pytest.approx(right / len(texts))
    assert 0 < right < len(texts)  # else any model would do
