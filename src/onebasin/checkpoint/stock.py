"""Run a checkpoint as the stock transformers model it is: on probe inputs, in any dtype, float64 included."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.checkpoint.checks import attention_of
from onebasin.spec import Images, ModelSpec, Tokens

EXPERTS = "eager"  # the quicker ways to run a mixture know no float64 and not all sizes


def stock_model(checkpoint: Checkpoint, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The transformers model of the checkpoint's own class, with the weights rounded to `dtype`.

    In float64 the whole forward pass is float64: steps that models take in float32, such as RMSNorm or the softmax,
    would leave 1e-6 on an exact symmetry.
    """
    model = build(checkpoint, dtype)
    load_weights(model, checkpoint)
    return model


def build(checkpoint: Checkpoint, dtype: torch.dtype) -> nn.Module:
    """The model with the weights that transformers gives it."""
    import transformers

    spec = checkpoint.spec
    config = transformers_config(checkpoint.config)
    for part in (config, *(getattr(config, name) for name in config.sub_configs)):
        part.dtype = dtype  # in 4.x the only place that every part of the model looks at
    config.return_dict, config.output_attentions, config.output_hidden_states = True, False, False  # outputs by name
    config.initializer_range = 0.02  # of weights that are all replaced
    config._experts_implementation = EXPERTS
    config.tie_word_embeddings = spec.tied  # some configurations leave it to the file
    kind = getattr(transformers, spec.architecture)
    model = kind._from_config(config, attn_implementation=attention_of(kind))
    _take_out_absent(model, spec)
    if isinstance(spec.reads, Tokens) and model.config.pad_token_id is None:
        model.config.pad_token_id = -1  # no padding: sequence heads read the last token of every row
    if dtype == torch.float64:
        all_in_float64(model)
    ready: nn.Module = model.eval()
    return ready


def _take_out_absent(model: nn.Module, spec: ModelSpec) -> None:
    """Some bare models are saved without their pooler; transformers would run one with random weights."""
    known = {*spec.keys, *spec.pieces}
    absent = {name.partition(".")[0] for name, _ in model.named_parameters() if source_key(spec, name) not in known}
    for part in absent:
        setattr(model, part, None)


@torch.no_grad()
def load_weights(model: nn.Module, checkpoint: Checkpoint, keys: Collection[str] | None = None) -> None:
    """Copy the checkpoint's tensors (those under `keys`, or all) into a stock model, rounding to its dtype."""
    for name, parameter in model.named_parameters():
        key = source_key(checkpoint.spec, name)
        if keys is None or key in keys:
            parameter.copy_(checkpoint.tensor(key))


def source_key(spec: ModelSpec, parameter: str) -> str:
    """The stored tensor that a parameter of the model comes from."""
    key = spec.table_name(parameter)
    return next((mirror.of for mirror in spec.mirrors if mirror.key == key), key)


def modules_of(model: nn.Module, spec: ModelSpec) -> dict[str, nn.Module]:
    """The module that owns each stored tensor, by table key."""
    names = [name for name, _ in model.named_parameters()]
    return {source_key(spec, name): model.get_submodule(name.rpartition(".")[0]) for name in names}


def all_in_float64(model: Any) -> None:
    """Let the model compute all of its forward pass in float64, where it is given that, instead of parts in float32."""
    recomputed = (x for x in model.modules() if hasattr(x, "gradient_checkpointing"))  # outside of the model's forward
    for module in {model, *recomputed}:
        module.forward = partial(_in_float64, module)
    model.config._experts_implementation = EXPERTS


def _in_float64(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    with keeping_float64():
        return type(module).forward(module, *args, **kwargs)


@contextmanager
def keeping_float64() -> Iterator[None]:
    """What is given in float64 stays so: parts of models that are run on their own need it too.

    Inside of itself it does nothing more: every call of torch goes through each mode there is.
    """
    if _KeepFloat64.on:
        yield
        return
    _KeepFloat64.on, usual = True, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # for masks, which some models fill with the least number of float64
    try:
        with _KeepFloat64():
            yield
    finally:
        torch.set_default_dtype(usual)
        _KeepFloat64.on = False


class _KeepFloat64(TorchFunctionMode):
    """Casts from float64 to float32, alone or inside another function, do nothing.

    `on` is of the process, as the default type is.
    """

    on: ClassVar[bool] = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if args and isinstance(args[0], Tensor) and args[0].dtype == torch.float64:
            if func is Tensor.float:
                return args[0]
            args = tuple(torch.float64 if x is torch.float32 else x for x in args)
            kwargs = {name: torch.float64 if x is torch.float32 else x for name, x in kwargs.items()}
        return func(*args, **kwargs)


def probe_inputs(spec: ModelSpec, *, batch: int = 4, length: int = 16, seed: int = 0) -> dict[str, Tensor]:
    """Random inputs of the model's own kinds: token ids, or white-noise images."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Tensor] = {}
    for name, kind in spec.inputs.items():
        match kind:
            case Tokens(vocabulary, positions):
                ids = ended(torch.randint(vocabulary, (batch, min(length, positions)), generator=generator), kind)
                found |= {name: ids, name.replace("input_ids", "attention_mask"): torch.ones_like(ids)}
            case Images(channels, height, width):
                shape = (batch, channels, height, width)
                found[name] = torch.randn(shape, generator=generator, dtype=torch.float64)
    return found


def ended(ids: Tensor, kind: Tokens | Images) -> Tensor:
    """Texts with the token that ends them at their end, and nowhere else, where the model looks for it."""
    if not isinstance(kind, Tokens) or kind.end is None:
        return ids
    others = torch.where(ids == kind.end, (kind.end + 1) % kind.vocabulary, ids)
    return torch.cat([others[:, :-1], torch.full_like(ids[:, :1], kind.end)], 1)


@torch.no_grad()
def outputs(
    model: nn.Module, spec: ModelSpec, inputs: Mapping[str, Tensor], device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """The outputs that the spec names, in float64, of a model on `device`."""
    dtype = next(model.parameters()).dtype
    placed = {name: x.to(device) for name, x in inputs.items()}
    result = model(**{name: x.to(dtype) if x.is_floating_point() else x for name, x in placed.items()})
    return {name: result[name].to("cpu", torch.float64) for name in spec.outputs}
