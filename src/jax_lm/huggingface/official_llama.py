"""LLaMA as Meta gives it out, ``consolidated.*.pth`` and ``params.json``, under other names.

Two things differ beside the names. Large models lie in pieces, one a device of the machines they
were trained on, cut along one axis of each matrix. And rotary positions turn neighbouring channels
of a head, where transformers turns a channel of its first half with one of its second.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.pickled_files import as_numpy, load_files, tensor_info
from jax_lm.huggingface.tensor_files import TensorInfo, read_json

PARAMS_FILE = "params.json"
WEIGHTS = "consolidated.*.pth"
IGNORED = ("rope.freqs",)


class _Piece(NamedTuple):
    theirs: str
    axis: int | None
    """Along which pieces are joined; None: every piece holds the whole."""


NAMES = {
    "model.embed_tokens.weight": _Piece("tok_embeddings.weight", 1),
    "model.norm.weight": _Piece("norm.weight", None),
    "lm_head.weight": _Piece("output.weight", 0),
}
LAYER_NAMES = {
    "self_attn.q_proj.weight": _Piece("attention.wq.weight", 0),
    "self_attn.k_proj.weight": _Piece("attention.wk.weight", 0),
    "self_attn.v_proj.weight": _Piece("attention.wv.weight", 0),
    "self_attn.o_proj.weight": _Piece("attention.wo.weight", 1),
    "mlp.gate_proj.weight": _Piece("feed_forward.w1.weight", 0),
    "mlp.down_proj.weight": _Piece("feed_forward.w2.weight", 1),
    "mlp.up_proj.weight": _Piece("feed_forward.w3.weight", 0),
    "input_layernorm.weight": _Piece("attention_norm.weight", None),
    "post_attention_layernorm.weight": _Piece("ffn_norm.weight", None),
}


def is_official(directory: Path) -> bool:
    """Whether a directory holds LLaMA in its publisher's layout."""
    return (directory / PARAMS_FILE).is_file() and any(directory.glob(WEIGHTS))


class OfficialLlama:
    """The tensors of such a directory under transformers' names, and its configuration."""

    def __init__(self, where: Path):
        """Open the files.

        Raises:
            JaxLMError: torch is not installed, or files are damaged or missing.
        """
        self.where = where
        self._params = read_json(where / PARAMS_FILE)
        self._pieces = load_files(where, sorted(where.glob(WEIGHTS)))
        names = _all_names(self._count("n_layers"))
        self._sources = {name: one for name, one in names.items() if one.theirs in self._pieces[0]}
        self.infos: Mapping[str, TensorInfo] = {
            **{name: self._joined(name) for name in self._sources},
            **self._foreign({one.theirs for one in names.values()}),
        }
        self.config_values = self._config()

    @contextmanager
    def view(self, name: str) -> Iterator[np.ndarray]:
        """One tensor, its pieces joined and the channels of its heads in transformers' order."""
        source = self._sources[name]
        parts = [as_numpy(tensor) for tensor in self._tensors(name)]
        axis = self._axis(name)
        values = parts[0] if axis is None else np.concatenate(parts, axis=axis)
        heads = {"attention.wq.weight": "n_heads", "attention.wk.weight": "n_kv_heads"}
        key = heads.get(source.theirs.split(".", 2)[-1])
        yield values if key is None else halves(values, self._heads(key))

    def read_into(self, name: str, out: np.ndarray) -> bool:
        """Never: tensors are joined first."""
        return False

    def _tensors(self, name: str) -> Sequence[Any]:
        key = self._sources[name].theirs
        lacking = [str(number) for number, piece in enumerate(self._pieces) if key not in piece]
        if lacking:
            raise JaxLMError(
                f"{self.where}: {key} is not in every {WEIGHTS}: missing in {', '.join(lacking)}"
            )
        return [piece[key] for piece in self._pieces]

    def _axis(self, name: str) -> int | None:
        tensors = self._tensors(name)
        if len(tensors) == 1:
            return None
        # Llama 3 cuts its token embedding by tokens, earlier ones by channels.
        by_tokens = name == "model.embed_tokens.weight" and (
            tensors[0].shape[1] == self._count("dim")
        )
        return 0 if by_tokens else self._sources[name].axis

    def _joined(self, name: str) -> TensorInfo:
        infos = [tensor_info(tensor) for tensor in self._tensors(name)]
        axis = self._axis(name)
        if axis is None:
            return infos[0]
        shape = list(infos[0].shape)
        shape[axis] = sum(info.shape[axis] for info in infos)
        return TensorInfo(tuple(shape), infos[0].dtype)

    def _foreign(self, known: set[str]) -> dict[str, TensorInfo]:
        """What no name of ours stands for, so that it is refused by name."""
        return {
            name: tensor_info(tensor)
            for name, tensor in self._pieces[0].items()
            if name not in known and not name.endswith(IGNORED)
        }

    def _count(self, key: str) -> int:
        value = self._params.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise JaxLMError(
                f"{self.where / PARAMS_FILE}: {key} must be a positive integer, not {value!r}"
            )
        return value

    def _heads(self, key: str) -> int:
        return self._count("n_heads" if self._params.get(key) is None else key)

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self.infos:
            wanted = _all_names(1)[name].theirs
            raise JaxLMError(f"{self.where}: no {wanted} in {WEIGHTS}")
        return self.infos[name].shape

    def _config(self) -> dict[str, Any]:
        params = self._params
        scaled = {"rope_scaling": _scaling(params)} if params.get("use_scaled_rope") else {}
        return {
            "model_type": "llama",
            "vocab_size": self._shape("model.embed_tokens.weight")[0],
            "hidden_size": self._count("dim"),
            "intermediate_size": self._shape("model.layers.0.mlp.gate_proj.weight")[0],
            "num_hidden_layers": self._count("n_layers"),
            "num_attention_heads": self._count("n_heads"),
            "num_key_value_heads": self._heads("n_kv_heads"),
            "max_position_embeddings": _context_length(params),
            "rms_norm_eps": params.get("norm_eps", 1e-5),
            "rope_theta": params.get("rope_theta", 10_000.0),
            "tie_word_embeddings": "lm_head.weight" not in self._sources,
            **scaled,
        }


def halves(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows of a projection from neighbouring pairs (0, 1), (2, 3) ... to two halves a head."""
    pairs = weight.reshape(num_heads, -1, 2, *weight.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _all_names(num_layers: int) -> dict[str, _Piece]:
    layers = {
        f"model.layers.{layer}.{name}": _Piece(f"layers.{layer}.{piece.theirs}", piece.axis)
        for layer in range(num_layers)
        for name, piece in LAYER_NAMES.items()
    }
    return {**NAMES, **layers}


def _context_length(params: Mapping[str, Any]) -> int:
    """What the models were published with: params.json does not say it."""
    if isinstance(params.get("max_seq_len"), int):
        return int(params["max_seq_len"])
    if params.get("use_scaled_rope"):
        return 131_072  # Llama 3.1 and later
    published = {500_000.0: 8192, 1_000_000.0: 16_384}  # Llama 3, Code Llama
    theta = float(params.get("rope_theta", 10_000.0))
    first = params.get("norm_eps") == 1e-6  # LLaMA, before Llama 2
    return published.get(theta, 2048 if first else 4096)


def _scaling(params: Mapping[str, Any]) -> dict[str, Any]:
    """As Llama 3.1's code has it."""
    return {
        "rope_type": "llama3",
        "factor": float(params.get("rope_scaling_factor") or 8.0),
        "low_freq_factor": 1.0,
        "high_freq_factor": float(params.get("rope_high_freq_factor") or 4.0),
        "original_max_position_embeddings": 8192,
    }
