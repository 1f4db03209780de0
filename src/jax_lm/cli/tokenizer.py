"""``jax-lm tokenizer train|show``: learn a tokenizer, or look at how it cuts a text."""

from collections.abc import Iterator
from itertools import islice

from jax_lm.cli.actions import Action, run_action
from jax_lm.cli.arguments import parse
from jax_lm.cli.tokenizer_arguments import ShowArguments, TrainArguments
from jax_lm.documents.base import iterate_texts
from jax_lm.documents.open import open_source
from jax_lm.tokenizers.encoders.choosing import choose_engine
from jax_lm.tokenizers.pretrained import PretrainedTokenizer, load_tokenizer
from jax_lm.tokenizers.showing import cut_lines, tokenizer_lines
from jax_lm.tokenizers.statistics import count_tokens, statistics_lines
from jax_lm.tokenizers.training import train_to_directory

TRAIN = "Learn a tokenizer. Example: jax-lm tokenizer train corpus/ --vocab-size 4096 --output tok"
SHOW = "Look at a tokenizer. Example: jax-lm tokenizer show tok --text 'How is this cut?' --ids"
COMPARED = 1000
"""Texts at the start of a corpus among which encoders are compared."""


def main(args: list[str]) -> None:
    """Run ``tokenizer train`` or ``tokenizer show``."""
    run_action("tokenizer", ACTIONS, args)


def _train(args: list[str], prog: str, description: str) -> None:
    given = parse(TrainArguments, args, prog, description)
    texts = iterate_texts(given.open())
    print(*train_to_directory(texts, given, given.output, given.overwrite), sep="\n")


def _show(args: list[str], prog: str, description: str) -> None:
    given = parse(ShowArguments, args, prog, description)
    tokenizer = load_tokenizer(given.tokenizer)
    if given.spec:
        print(*_statistics(tokenizer, given), sep="\n")
    elif given.text is not None:
        print(*cut_lines(tokenizer, given.text, given.ids), sep="\n")
    else:
        print(*tokenizer_lines(tokenizer), sep="\n")


def _statistics(tokenizer: PretrainedTokenizer, given: ShowArguments) -> Iterator[str]:
    source = open_source(given.spec, given)
    sample = islice(iterate_texts(source), COMPARED)
    choice = choose_engine(tokenizer, sample, given.encoder)
    yield choice.sentence()
    found = count_tokens(tokenizer.use(choice.name), iterate_texts(source))
    yield from statistics_lines(tokenizer, found)


ACTIONS = {"train": Action(_train, TRAIN), "show": Action(_show, SHOW)}
