"""Flags of ``jax-lm serve``."""

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import tyro

from jax_lm.serving.options import ServeOptions
from jax_lm.serving.start import checked_token, read_token
from jax_lm.sharding.mesh import MeshConfig

TOKEN_VARIABLE = "JAX_LM_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class ServeArguments(ServeOptions):
    """What to serve, and how."""

    model: tyro.conf.Positional[str]
    """A run directory, RUN@STEP, a Hugging Face directory or a name on its hub."""
    served_model_name: str | None = None
    """What clients call the model; None: the last part of MODEL."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the computation and of the cache of keys and values."""
    max_length: int | None = None
    """Tokens of the longest text, prompt included; None: the model's context."""
    chat_template: str | None = None
    """How conversations become text: a name, a jinja file or a tokenizer directory; None: the
    model's own, else plain."""
    token_file: Path | None = None
    """A file with the token that clients have to send; or set JAX_LM_TOKEN."""
    mesh: MeshConfig = field(default_factory=MeshConfig)
    """How devices share the work."""

    def options(self) -> ServeOptions:
        """Those of the server alone."""
        names = [one.name for one in fields(ServeOptions)]
        return ServeOptions(**{name: getattr(self, name) for name in names})

    def token(self) -> str | None:
        """What clients have to show.

        Raises:
            JaxLMError: it is no token.
        """
        if self.token_file is not None:
            return read_token(self.token_file)
        given = os.environ.get(TOKEN_VARIABLE)
        return None if given is None else checked_token(given, TOKEN_VARIABLE)

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach it."""
        return self.host not in LOOPBACK
