"""Run a checkpoint as the stock transformers model it is: on probe inputs, in any dtype, float64 included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.checkpoint.model import attention_of
from onebasin.spec import Images, ModelSpec, Tokens


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
    config.dtype = dtype  # in 4.x the only place that every part of the model looks at
    config.return_dict, config.output_attentions, config.output_hidden_states = True, False, False  # outputs by name
    config.initializer_range = 0.02  # of weights that are all replaced
    kind = getattr(transformers, spec.architecture)
    model = kind._from_config(config, attn_implementation=attention_of(kind))
    _take_out_absent(model, spec)
    if isinstance(spec.inputs, Tokens) and model.config.pad_token_id is None:
        model.config.pad_token_id = -1  # no padding: sequence heads read the last token of every row
    if dtype == torch.float64:
        all_in_float64(model)
    ready: nn.Module = model.eval()
    return ready


def _take_out_absent(model: nn.Module, spec: ModelSpec) -> None:
    """Some bare models are saved without their pooler; transformers would run one with random weights."""
    absent = {name.partition(".")[0] for name, _ in model.named_parameters() if source_key(spec, name) not in spec.keys}
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
    """Let the model compute all of its forward pass in float64, where it is given that, instead of parts in float32.

    Its blocks too: they are run again on their own where gradients are computed from checkpoints.
    """
    blocks = [block for found in model.modules() if isinstance(found, nn.ModuleList) for block in found]
    for module in dict.fromkeys([model, *blocks]):
        module.forward = partial(_in_float64, module.forward)


def _in_float64(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if getattr(_inside, "float64", False):
        return forward(*args, **kwargs)
    _inside.float64 = True
    try:
        with _KeepFloat64():
            return forward(*args, **kwargs)
    finally:
        _inside.float64 = False


_inside = threading.local()  # gradients are computed in threads of their own


class _KeepFloat64(TorchFunctionMode):
    """Casts from float64 to float32, alone or inside another function, do nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if args and isinstance(args[0], Tensor) and args[0].dtype == torch.float64:
            if func is Tensor.float:
                return args[0]
            args = tuple(torch.float64 if x is torch.float32 else x for x in args)
            kwargs = {name: torch.float64 if x is torch.float32 else x for name, x in kwargs.items()}
        return func(*args, **kwargs)


def probe_inputs(spec: ModelSpec, *, batch: int = 4, length: int = 16, seed: int = 0) -> dict[str, Tensor]:
    """Random inputs of the model's own kind: token ids, or white-noise images."""
    generator = torch.Generator().manual_seed(seed)
    match spec.inputs:
        case Tokens(vocabulary, positions):
            shape = (batch, min(length, positions))
            ids = torch.randint(vocabulary, shape, generator=generator)
            return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        case Images(channels, height, width):
            return {
                "pixel_values": torch.randn(batch, channels, height, width, generator=generator, dtype=torch.float64)
            }


@torch.no_grad()
def outputs(
    model: nn.Module, spec: ModelSpec, inputs: Mapping[str, Tensor], device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """The outputs that the spec names, in float64, of a model on `device`."""
    dtype = next(model.parameters()).dtype
    placed = {name: x.to(device) for name, x in inputs.items()}
    result = model(**{name: x.to(dtype) if x.is_floating_point() else x for name, x in placed.items()})
    return {name: result[name].to("cpu", torch.float64) for name in spec.outputs}
