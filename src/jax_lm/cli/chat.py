"""``jax-lm chat``: talk to a model in the terminal."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from jax_lm.cli.arguments import parse
from jax_lm.generation.sampling import SamplingConfig

DESCRIPTION = """Talk to a model: answers appear as they are drawn, Ctrl-C stops an answer, /help
lists the commands. MODEL is loaded here; --url speaks to a server that `jax-lm serve` started.

Example: jax-lm chat runs/chat --system "You book tables." --temperature 0.5
"""


@dataclass(frozen=True, kw_only=True)
class Arguments(SamplingConfig):
    """Whom to talk to, and how."""

    model: Annotated[str | None, tyro.conf.Positional] = None
    """A run directory, RUN@STEP, a Hugging Face directory or a hub name."""
    stop: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Text that ends an answer, and is not part of it; may be given several times."""
    url: str | None = None
    """Address of a running server, such as http://127.0.0.1:8000, in place of MODEL. The
    environment variable JAX_LM_TOKEN is its bearer token, where it asks for one."""
    system: str = ""
    """What the model is told beforehand."""
    load: Path | None = None
    """Go on with a conversation that /save wrote."""
    chat_template: str | None = None
    """How the conversation becomes a prompt: chatml, dsgpt2, vicuna, plain, bare or a jinja file;
    default: the model's own where there is one, else plain. Of no use with --url."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the computation and of the cache."""


def main(args: list[str]) -> None:
    """Run ``jax-lm chat``."""
    given = parse(Arguments, args, "jax-lm chat", DESCRIPTION)
    from jax_lm.chat.opening import ChatOptions, open_chat

    fields = ("model", "url", "system", "load", "chat_template", "dtype")
    options = ChatOptions(**{name: getattr(given, name) for name in fields})
    open_chat(options, given, os.environ.get("JAX_LM_TOKEN")).run()
