"""Hugging Face checkpoint folders: found, refused or read lazily, and written whole.

The only package that opens files, and the only one that rounds.  Importing it, reading a configuration and opening
headers import neither torch nor transformers.
"""

from onebasin.checkpoint.checks import transformers_config
from onebasin.checkpoint.dtypes import DTYPES, Dtype, is_finite, nbytes, rounding_unit, torch_dtype
from onebasin.checkpoint.folder import has_custom_code, locate, read_config, weights_entry
from onebasin.checkpoint.model import Checkpoint
from onebasin.checkpoint.output import carry_files, check_output, is_carried, whole_folder
from onebasin.checkpoint.store import Header, Progress, Store
from onebasin.checkpoint.write import Planned, json_text, shards, write_folder

__all__ = [
    "DTYPES",
    "Checkpoint",
    "Dtype",
    "Header",
    "Planned",
    "Progress",
    "Store",
    "carry_files",
    "check_output",
    "has_custom_code",
    "is_carried",
    "is_finite",
    "json_text",
    "locate",
    "nbytes",
    "read_config",
    "rounding_unit",
    "shards",
    "torch_dtype",
    "transformers_config",
    "weights_entry",
    "whole_folder",
    "write_folder",
]
