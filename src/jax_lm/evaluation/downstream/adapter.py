"""The class that lm-evaluation-harness knows as ``jax-lm``."""

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from jax_lm.errors import UsageError, missing_extra
from jax_lm.evaluation.devices import usual_mesh
from jax_lm.evaluation.downstream.model import HarnessModel, HarnessOptions
from jax_lm.pretrained import open_model
from jax_lm.sharding.mesh import MeshConfig
from jax_lm.sharding.rules import rules_of, state_shardings

NAME = "jax-lm"
"""What the harness calls our models."""
ARGUMENTS = {
    "dtype": "dtype",
    "max_length": "max_length",
    "max_gen_toks": "max_new_tokens",
    "add_bos_token": "add_bos",
    "parse_special_tokens": "parse_special",
}
"""``--model_args``, by the harness's names, and the options that they are."""
WITHOUT_MEANING = ("device", "max_batch_size")
"""What the harness gives every model, and ours have no use for."""


def opened_model(model: str, options: HarnessOptions) -> HarnessModel:
    """A MODEL on all devices.

    Raises:
        JaxLMError: it cannot be read, or is of a kind that the harness does not ask for.
    """
    mesh, rules = usual_mesh(), rules_of(MeshConfig())
    if mesh is None:
        return HarnessModel(open_model(model), options)
    opened = open_model(model, lambda whole: state_shardings(whole, whole, mesh, rules))
    return HarnessModel(opened, options, mesh)


def options_of(batch_size: int | str | None, arguments: dict[str, Any]) -> HarnessOptions:
    """Options from ``--batch_size`` and ``--model_args``.

    Raises:
        UsageError: an argument is unknown.
    """
    given = {name: value for name, value in arguments.items() if name not in WITHOUT_MEANING}
    unknown = sorted(set(given) - set(ARGUMENTS))
    if unknown:
        known = ", ".join(["pretrained", *ARGUMENTS])
        raise UsageError(f"--model_args {unknown[0]}: {NAME} takes {known}")
    values = {ARGUMENTS[name]: value for name, value in given.items()}
    if str(batch_size).isdigit():  # "auto" is the harness's own way of not saying
        values["batch_size"] = int(str(batch_size))
    return HarnessOptions(**values)


class Adapter:
    """Hands the harness's requests to one of our models; goes before its ``TemplateLM``."""

    cache_hook: Any
    """The harness's: told every answer."""

    def __init__(
        self,
        pretrained: str = "",
        batch_size: int | str | None = None,
        opened: HarnessModel | None = None,
        **arguments: Any,
    ) -> None:
        """Take a model.

        Args:
            pretrained: MODEL.
            batch_size: requests at once.
            opened: the model itself, in the place of all others.
            **arguments: the rest of ``--model_args``.
        """
        super().__init__()
        self.answers = opened or opened_model(pretrained, options_of(batch_size, arguments))
        self.backend = "seq2seq" if self.answers.reads_apart else "causal"

    @property
    def eot_token_id(self) -> int:
        """What stands before a text that has no context."""
        return self.answers.first_id

    @property
    def max_length(self) -> int:
        """Tokens that the model reads at most."""
        return self.answers.max_length

    @property
    def tokenizer_name(self) -> str:
        """What tells its cached requests from those of others."""
        return str(self.answers.opened.tokenizer_path)

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **others: Any
    ) -> list[int]:
        """Ids of a text."""
        return self.answers.encode(string, framed=add_special_tokens is not False)

    def _loglikelihood_tokens(
        self, requests: Sequence[Any], **others: Any
    ) -> list[tuple[float, bool]]:
        scores = self.answers.scores([(context, text) for _, context, text in requests])
        found = [(score.log_prob, score.is_greedy) for score in scores]
        self._tell("loglikelihood", [strings for strings, _, _ in requests], found)
        return found

    def loglikelihood_rolling(self, requests: Sequence[Any], **others: Any) -> list[float]:
        """Log-probabilities of whole texts."""
        found = self.answers.whole_texts([request.args[0] for request in requests])
        self._tell("loglikelihood_rolling", [request.args for request in requests], found)
        return found

    def generate_until(self, requests: Sequence[Any], **others: Any) -> list[str]:
        """Texts that follow contexts."""
        found = self.answers.write([request.args for request in requests])
        self._tell("generate_until", [request.args for request in requests], found)
        return found

    def _tell(self, kind: str, arguments: Sequence[Any], found: Sequence[Any]) -> None:
        for one, answer in zip(arguments, found, strict=True):
            self.cache_hook.add_partial(kind, one, answer)


@cache
def adapter_class() -> Any:
    """The adapter as a model of the harness, registered with it.

    Raises:
        JaxLMError: lm_eval is not installed.
    """
    template = harness_module("api.model").TemplateLM
    made = type("JaxLM", (Adapter, template), {"__doc__": Adapter.__doc__})
    harness_module("api.registry").register_model(NAME)(made)
    return made


def harness_module(module: str) -> Any:
    """A module of lm_eval."""
    try:
        return importlib.import_module(f"lm_eval.{module}".rstrip("."))
    except ModuleNotFoundError as error:
        raise missing_extra("lm_eval", "lm-eval", "running its tasks") from error
