"""How documents are cut into windows, by methods that have names."""

from dataclasses import dataclass
from typing import Literal

from jax_lm.errors import UsageError

Method = Literal["rolling", "disjoint", "pseudo"]


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """How documents are cut into windows; always told with the number."""

    method: Method = "rolling"
    """``rolling``: every token sees at least ``context`` tokens before it, where the document has
    them (the Pile paper's). ``disjoint``: windows do not overlap, except the last of a document,
    which is shifted back to its end (lm-evaluation-harness's). ``pseudo``: windows as for
    ``disjoint``, each token of which is hidden once (Salazar et al. 2020, arXiv:1910.14659)."""
    window: int
    """Inputs of a window, in tokens."""
    context: int
    """``rolling``: inputs that a later window's first new target sees at least."""

    def __post_init__(self) -> None:
        """Refuse windows that score nothing."""
        if not 1 <= self.context <= self.window:
            raise UsageError(
                f"context {self.context} must lie between 1 and the window, {self.window} tokens"
            )

    def describe(self, start_id: int | None) -> str:
        """The method and its settings in a line."""
        settings = f"window {self.window}"
        if self.method == "pseudo":
            return f"pseudo ({settings} tokens; each token hidden once, special ones not scored)"
        if self.method == "rolling":
            settings += f", context {self.context}"
        first = "conditioned on BOS/EOS" if start_id is not None else "context only, not scored"
        return f"{self.method} ({settings} tokens; the first token of a document is {first})"


def method_config(
    method: Method, *, window: int | None, context: int | None, model_context: int
) -> MethodConfig:
    """Fill in defaults: the model's whole context as window, half of it as rolling context.

    Raises:
        UsageError: the window is longer than the model's context, or a context belongs to another
            method.
    """
    window = model_context if window is None else window
    if not 1 <= window <= model_context:
        raise UsageError(f"window {window} must lie between 1 and the model's {model_context}")
    if method != "rolling":
        if context not in (None, 1):
            raise UsageError("--context-length belongs to --method rolling")
        return MethodConfig(method=method, window=window, context=1)
    return MethodConfig(
        method=method, window=window, context=max(1, window // 2) if context is None else context
    )


def row_lengths(window: int) -> tuple[int, ...]:
    """Widths that windows are padded to, so that few shapes are compiled: a quarter, and whole."""
    return (window // 4, window) if window >= 128 else (window,)
