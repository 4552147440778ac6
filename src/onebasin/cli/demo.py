"""`onebasin demo`: a small random model, inspected, verified, scrambled and put back; no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model is written.")] = Path("demo"),
) -> None:
    """Write a small random Llama and a scrambled copy, show its symmetries, verify them, and merge the two."""
    from onebasin.checkpoint import whole_folder
    from onebasin.cli.inspect import inspect
    from onebasin.cli.output import console
    from onebasin.cli.verify import verify

    folder = out / "random-llama"
    if not folder.exists():
        with whole_folder(out) as partial:
            _write_random_llama(partial / folder.name)
            _write_scrambled(partial / folder.name, partial / "scrambled")
    console.print(f"[bold]$ onebasin inspect {folder}[/bold]")
    inspect(str(folder))
    console.print(f"\n[bold]$ onebasin verify {folder}[/bold]")
    verify(str(folder))
    console.print("\n[bold]the model and its scrambled copy, averaged[/bold]")
    plain, aligned = _averages(folder, out / "scrambled")
    console.print(f"as they are:            outputs off by {plain:.0%} of their size")
    console.print(f"aligned by weights:     outputs off by {aligned:.1e} of their size")
    console.print("One function, two files: their plain average is a broken model, their average in one basis is not.")


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


def _write_scrambled(source: Path, folder: Path) -> None:
    """The same function in another basis: a random element of every space."""
    from onebasin.alignment import Alignment, transport
    from onebasin.canonical.form import canonicalize
    from onebasin.checkpoint import Checkpoint

    form = canonicalize(Checkpoint.open(source)).checkpoint
    transport(form, Alignment.random(form.spec, seed=1, condition=10.0)).save(folder)


def _averages(original: Path, scrambled: Path) -> tuple[float, float]:
    """How far the plain and the aligned midpoint are from the original, relative to the size of its outputs."""
    from onebasin.aligning import align
    from onebasin.checkpoint import Checkpoint
    from onebasin.landscape import FactorPath
    from onebasin.stock import outputs, probe_inputs, stock_model

    a, b = Checkpoint.open(original), Checkpoint.open(scrambled)
    inputs = probe_inputs(a.spec, seed=1)
    expected = outputs(stock_model(a), a.spec, inputs)["logits"]

    def off(midpoint: Checkpoint) -> float:
        found = outputs(stock_model(midpoint), a.spec, inputs)["logits"]
        return float((found - expected).norm() / expected.norm())

    return off(FactorPath(a, b).at(0.5)), off(align(a, b).midpoint())
