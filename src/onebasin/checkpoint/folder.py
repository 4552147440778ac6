"""Find a checkpoint folder and its configuration; refuse what is not a plain safetensors checkpoint.

Nothing found in a folder is ever executed: no pickle is opened and no Python file is imported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onebasin.checkpoint.output import LEGAL, SUFFIXES
from onebasin.errors import BadCheckpoint
from onebasin.names import as_path

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DEEPEST = 100  # levels of lists and objects in a JSON file

_DOWNLOAD = [SINGLE, "model-*.safetensors", "README.md"]
_DOWNLOAD += [*(f"*{suffix}" for suffix in SUFFIXES), *(f"{prefix.upper()}*" for prefix in LEGAL)]
_CONVERT = (
    "import transformers; transformers.CLASS.from_pretrained(IN).save_pretrained(OUT), with CLASS the name under "
    '"architectures" in config.json'
)
_FOREIGN = (  # format, its files, what to do
    ("GGUF", ("*.gguf",), "use the checkpoint that the GGUF file was converted from"),
    ("pickle", ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt"), f"if you trust its source, convert it: {_CONVERT}"),
    ("TensorFlow", ("tf_model*.h5",), f"convert it with transformers 4 (from_tf=True): {_CONVERT}"),
    ("Flax", ("flax_model*.msgpack",), f"convert it with transformers 4 (from_flax=True): {_CONVERT}"),
)
_QUANTISED_KEYS = ("quantization_config", "compression_config")
_QUANTISED_FILES = ("quantize_config.json", "quant_config.json")


def locate(path_or_id: str, revision: str | None = None) -> Path:
    """The folder of a checkpoint: a local folder as it is, anything else a Hub id, downloaded or found in the cache.

    `revision` concerns Hub ids only.  Pickled weights and Python files are never downloaded.
    """
    path = as_path(path_or_id)
    if path.is_dir():
        return path
    if path.is_file():
        raise BadCheckpoint(f"{path_or_id} is a file", expected="a folder", next_step="give the folder that holds it")
    if path.is_absolute() or path_or_id.startswith((".", "~")) or path_or_id.count("/") > 1:
        raise BadCheckpoint(f"there is no folder {path_or_id}", next_step="check the path")
    return _download(path_or_id, revision)


def _download(repo_id: str, revision: str | None) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    absent = f"there is no folder {repo_id} here, and "
    try:
        return Path(huggingface_hub.snapshot_download(repo_id, revision=revision, allow_patterns=_DOWNLOAD))
    except errors.HFValidationError as error:
        raise BadCheckpoint(f"{absent}it is not a Hub id either", found=error, next_step="check the path") from error
    except errors.GatedRepoError as error:
        step = "accept its terms on its Hub page, then run `hf auth login`"
        raise BadCheckpoint(f"the Hub does not give {repo_id} to everyone", next_step=step) from error
    except errors.RepositoryNotFoundError as error:
        raise BadCheckpoint(
            f"{absent}no such model on the Hub", next_step="check the spelling; for a private model run `hf auth login`"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise BadCheckpoint(
            f"{repo_id} has no revision {revision}", next_step="give a branch, tag or commit that its Hub page lists"
        ) from error
    except OSError as error:  # no network, offline mode, the Hub itself
        step = "check the path if a local folder was meant; otherwise go online once, so that the cache holds the model"
        reason = str(error).splitlines()[0]
        raise BadCheckpoint(f"{absent}the Hub could not provide it", found=reason, next_step=step) from error


def read_config(folder: Path) -> dict[str, Any]:
    """The parsed `config.json`, once nothing about the folder forbids reading it as a plain checkpoint."""
    _refuse_foreign(folder)
    file = folder / "config.json"
    if not file.is_file():
        raise BadCheckpoint(
            f"{folder} has no config.json", next_step="give a folder written by save_pretrained, or a Hub id"
        )
    config = read_json_object(file)
    quantised = [key for key in _QUANTISED_KEYS if config.get(key)]
    quantised += [name for name in _QUANTISED_FILES if (folder / name).exists()]
    if quantised:
        raise quantised_error(folder, found=", ".join(quantised))
    return config


def weights_entry(folder: Path) -> Path:
    """The file to start reading weights from: `model.safetensors` if there is one, as in transformers, or the index."""
    _refuse_foreign(folder)
    for name in (SINGLE, INDEX):
        if (folder / name).is_file():
            return folder / name
    others = sorted(file.name for file in folder.glob("*.safetensors"))
    step = f"give a folder with weights in it; for a Hub model that has only pickled weights: {_CONVERT}"
    if others:
        step = f"if one of these holds the whole model, rename it to {SINGLE}"
    found = ", ".join(others) or "no safetensors file"
    raise BadCheckpoint(f"{folder} has no weights", expected=f"{SINGLE} or {INDEX}", found=found, next_step=step)


def has_custom_code(folder: Path, config: dict[str, Any]) -> bool:
    """Whether the checkpoint brings its own Python code.  It is never run; the tensors are read as plain data."""
    return "auto_map" in config or any(folder.glob("*.py"))


def read_json_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    step = "download or save the checkpoint again"
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadCheckpoint(f"{file} cannot be read", found=error, next_step="check the path") from error
    except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise BadCheckpoint(f"{file} is not valid JSON", found=error, next_step=step) from error
    if not isinstance(value, dict):
        raise BadCheckpoint(f"{file} is not an object", expected="{...}", found=type(value).__name__, next_step=step)
    if _is_deeper(value, DEEPEST):
        expected = f"at most {DEEPEST} levels of lists and objects"
        raise BadCheckpoint(f"{file} is nested too deeply", expected=expected, next_step=step)
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects lie in each other more than so many times."""
    inside = [value]
    for _ in range(levels):
        holders = [x.values() if isinstance(x, dict) else x for x in inside if isinstance(x, dict | list)]
        inside = [x for holder in holders for x in holder]
    return any(isinstance(x, dict | list) for x in inside)


def quantised_error(folder: Path, **fields: Any) -> BadCheckpoint:
    """The refusal of quantised weights; `fields` say where they were seen."""
    step = "use the original checkpoint, or dequantise it: model.dequantize().save_pretrained(OUT)"
    return BadCheckpoint(f"{folder} is quantised", expected="floating-point weights", next_step=step, **fields)


def _refuse_foreign(folder: Path) -> None:
    if not folder.is_dir():
        raise BadCheckpoint(f"there is no folder {folder}", next_step="check the path")
    if (folder / "adapter_config.json").exists():
        step = "merge it into its base model first: model.merge_and_unload().save_pretrained(OUT)"
        raise BadCheckpoint(f"{folder} is an adapter, not a whole model", found="adapter_config.json", next_step=step)
    if any(folder.glob("*.safetensors")) or (folder / INDEX).exists():
        return
    for kind, patterns, step in _FOREIGN:
        files = sorted(file.name for pattern in patterns for file in folder.glob(pattern))
        if files:
            what = f"{folder} holds {kind} weights only"
            raise BadCheckpoint(what, expected=SINGLE, found=", ".join(files), next_step=step)
