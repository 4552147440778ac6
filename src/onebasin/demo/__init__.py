"""Two small Transformers, trained here and aligned by every method: the library in one run, no download."""

from onebasin.demo.demonstration import demonstrate
from onebasin.demo.variants import VARIANTS, Variant

__all__ = ["VARIANTS", "Variant", "demonstrate"]
