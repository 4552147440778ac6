"""`onebasin demo`: a small random model, inspected and verified; no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model is written.")] = Path("demo"),
) -> None:
    """Write a small random Llama, show its symmetries, and verify them."""
    from onebasin.checkpoint import whole_folder
    from onebasin.cli.inspect import inspect
    from onebasin.cli.output import console
    from onebasin.cli.verify import verify

    folder = out / "random-llama"
    if not folder.exists():
        with whole_folder(out) as partial:
            _write_random_llama(partial / folder.name)
    console.print(f"[bold]$ onebasin inspect {folder}[/bold]")
    inspect(str(folder))
    console.print(f"\n[bold]$ onebasin verify {folder}[/bold]")
    verify(str(folder))


def _write_random_llama(folder: Path) -> None:
    """Grouped heads, a head width of its own, gains that are not one: nothing a wrong symmetry could hide behind."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=96, intermediate_size=192, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=128, initializer_range=0.1,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.save_pretrained(folder)
