"""The recipes by name; a new recipe is a new row."""

from collections.abc import Callable, Mapping

from jax_lm.errors import UsageError, nearest
from jax_lm.recipes.dsgpt2 import dsgpt2_112m, dsgpt2_112m_half, dsgpt2_345m, dsgpt2_conversation
from jax_lm.recipes.english import gpt2_small_openwebtext, wikitext103_gpt2
from jax_lm.recipes.llama import (
    llama_1b_8_gpus,
    llama_1b_tpu_pod,
    llama_7b_8_gpus,
    llama_7b_tpu_pod,
)
from jax_lm.recipes.norwegian import (
    bart_norwegian,
    gpt2_norwegian,
    roberta_norwegian,
    t5_norwegian,
)
from jax_lm.recipes.pairs import gptj_6b_finetune, llama_7b_finetune
from jax_lm.recipes.pile import pile_1b4, pile_2b6, pile_178m
from jax_lm.recipes.quickstart import quickstart
from jax_lm.recipes.shakespeare_char import shakespeare_char
from jax_lm.training.config import TrainConfig

Recipe = Callable[[], TrainConfig]
RECIPES: Mapping[str, Recipe] = {
    "quickstart": quickstart,
    "shakespeare-char": shakespeare_char,
    "gpt2-small-openwebtext": gpt2_small_openwebtext,
    "wikitext103-gpt2": wikitext103_gpt2,
    "gpt2-norwegian": gpt2_norwegian,
    "roberta-norwegian": roberta_norwegian,
    "t5-norwegian": t5_norwegian,
    "bart-norwegian": bart_norwegian,
    "pile-178m": pile_178m,
    "pile-1b4": pile_1b4,
    "pile-2b6": pile_2b6,
    "gptj-6b-finetune": gptj_6b_finetune,
    "llama-7b-finetune": llama_7b_finetune,
    "dsgpt2-112m": dsgpt2_112m,
    "dsgpt2-112m-half": dsgpt2_112m_half,
    "dsgpt2-345m": dsgpt2_345m,
    "dsgpt2-conversation": dsgpt2_conversation,
    "llama-1b-8-gpus": llama_1b_8_gpus,
    "llama-1b-tpu-pod": llama_1b_tpu_pod,
    "llama-7b-8-gpus": llama_7b_8_gpus,
    "llama-7b-tpu-pod": llama_7b_tpu_pod,
}
ALIASES: Mapping[str, str] = {"gpt2-small": "gpt2-small-openwebtext"}
"""Earlier names."""


def find_recipe(name: str) -> Recipe:
    """A recipe by name.

    Raises:
        UsageError: there is none; the nearest is named.
    """
    known = ALIASES.get(name, name)
    if known not in RECIPES:
        hint = nearest(name, [*RECIPES, *ALIASES])
        raise UsageError(f"unknown recipe {name!r}{hint}: choose one of {', '.join(RECIPES)}")
    return RECIPES[known]
