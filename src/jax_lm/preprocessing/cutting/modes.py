"""The modes of cutting, by the name of ``--mode``."""

from collections.abc import Callable, Mapping
from typing import Literal

from jax_lm.preprocessing.cutting.base import Cutting, FeatureRows
from jax_lm.preprocessing.cutting.packed import pack
from jax_lm.preprocessing.cutting.pairs import cut_pairs
from jax_lm.preprocessing.cutting.rolling import cut_rolling
from jax_lm.preprocessing.cutting.whole import cut_whole
from jax_lm.preprocessing.cutting.windows import cut_windows
from jax_lm.preprocessing.tokenized import TokenizedDocuments

Mode = Literal["packed", "windows", "rolling", "documents", "pairs"]
Cut = Callable[[TokenizedDocuments, Cutting], FeatureRows | None]

MODES: Mapping[str, Cut] = {
    "packed": pack,
    "windows": cut_windows,
    "rolling": cut_rolling,
    "documents": cut_whole,
    "pairs": cut_pairs,
}
