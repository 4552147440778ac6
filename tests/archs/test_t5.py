"""T5: a head that is untied makes good for the scale that goes with the tie; one embedding serves both stacks."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.exactness import EXACT, drift
from helpers.random_models import config_of, random_model
from onebasin import Checkpoint
from onebasin.canonical.rewrites import untie
from onebasin.errors import BadCheckpoint

WEIGHTS = "model.safetensors"


@pytest.fixture
def tied(tmp_path):
    config = config_of("t5", 1)
    config.scale_decoder_outputs = config.tie_word_embeddings = True
    random_model("T5ForConditionalGeneration", config, 1).save_pretrained(tmp_path / "m")
    return Checkpoint.open(tmp_path / "m")


def test_untying_makes_good_for_the_scale_of_the_outputs(tied, tmp_path):
    loose = untie(tied)
    assert tied.spec.tied
    assert not loose.spec.tied
    assert drift(tied, loose) < EXACT
    assert torch.allclose(loose["lm_head.weight"], tied["shared.weight"] * tied.config["d_model"] ** -0.5)
    loose.save(tmp_path / "out", dtype="F64")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tie_word_embeddings"] is False
    assert drift(tied, Checkpoint.open(tmp_path / "out")) < EXACT
    plain = loose.derive({"lm_head.weight": lambda: tied["shared.weight"]})
    assert drift(tied, plain) > 1e-2  # the control: a mere copy is another model


def test_an_embedding_of_the_encoder_alone_is_refused(tied):
    file = tied.store.folder / WEIGHTS
    stored = load_file(file)
    for other, refused in ((stored["shared.weight"].clone(), False), (stored["shared.weight"] + 1, True)):
        save_file({**stored, "encoder.embed_tokens.weight": other}, file, metadata={"format": "pt"})
        model = Checkpoint.open(tied.store.folder)
        if refused:
            with pytest.raises(BadCheckpoint, match="hold different numbers"):
                model.check_values()
        else:
            model.check_values()
