"""The modes of cutting, by the name of ``--mode``."""

from collections.abc import Callable, Mapping
from typing import Literal

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows
from jax_lm.preprocessing.cutting.packed import pack
from jax_lm.preprocessing.tokenized import TokenizedDocuments

Mode = Literal["packed", "windows", "rolling", "documents", "pairs"]
Cut = Callable[[TokenizedDocuments, Cutting], FeatureRows | None]

MODES: Mapping[str, Cut] = {"packed": pack}
