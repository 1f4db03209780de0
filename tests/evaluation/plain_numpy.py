"""GPT-2 and LLaMA written out in NumPy and float64, from the files of a model directory.

Nothing of the package is used, and nothing clever: a whole sequence goes through, and the logits
of its last place come out. No batches, no caches, no padding.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

Weights = dict[str, np.ndarray]
Logits = Callable[[list[int]], np.ndarray]


def forward(directory: Path) -> Logits:
    """Ids of a sequence -> logits of the token after it."""
    config = json.loads((directory / "config.json").read_text())
    stored = load_file(directory / "model.safetensors")
    weights = {name: array.astype(np.float64) for name, array in stored.items()}
    model = {"gpt2": gpt2, "llama": llama}[config["model_type"]]
    return lambda ids: model(weights, config, ids)


def gpt2(weights: Weights, config: dict, ids: list[int]) -> np.ndarray:
    heads, eps = config["n_head"], config["layer_norm_epsilon"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def affine(name: str, x: np.ndarray) -> np.ndarray:
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["transformer.wte.weight"][ids] + weights["transformer.wpe.weight"][: len(ids)]
    for layer in range(config["n_layer"]):
        block = f"transformer.h.{layer}"
        mixed = affine(f"{block}.attn.c_attn", norm(f"{block}.ln_1", x))
        query, key, value = (split(part, heads) for part in np.split(mixed, 3, axis=-1))
        x = x + affine(f"{block}.attn.c_proj", attention(query, key, value))
        inner = affine(f"{block}.mlp.c_fc", norm(f"{block}.ln_2", x))
        gelu = np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))
        x = x + affine(f"{block}.mlp.c_proj", 0.5 * inner * (1 + gelu))
    return (
        weights["transformer.wte.weight"][: config["vocab_size"]] @ norm("transformer.ln_f", x)[-1]
    )


def llama(weights: Weights, config: dict, ids: list[int]) -> np.ndarray:
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]
    base = (config.get("rope_parameters") or config)["rope_theta"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        squares = (x**2).mean(-1, keepdims=True)
        return x / np.sqrt(squares + config["rms_norm_eps"]) * weights[f"{name}.weight"]

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T

    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        block = f"model.layers.{layer}"
        seen = norm(f"{block}.input_layernorm", x)
        query = rotated(split(linear(f"{block}.self_attn.q_proj", seen), heads), base)
        key = rotated(split(linear(f"{block}.self_attn.k_proj", seen), key_heads), base)
        value = split(linear(f"{block}.self_attn.v_proj", seen), key_heads)
        key, value = (np.repeat(part, heads // key_heads, axis=0) for part in (key, value))
        x = x + linear(f"{block}.self_attn.o_proj", attention(query, key, value))
        seen = norm(f"{block}.post_attention_layernorm", x)
        gate = linear(f"{block}.mlp.gate_proj", seen)
        gated = gate / (1 + np.exp(-gate)) * linear(f"{block}.mlp.up_proj", seen)
        x = x + linear(f"{block}.mlp.down_proj", gated)
    tied = weights["model.embed_tokens.weight"]
    return weights.get("lm_head.weight", tied) @ norm("model.norm", x)[-1]


def split(x: np.ndarray, heads: int) -> np.ndarray:
    """Places of all heads' values -> heads of places of values."""
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def rotated(x: np.ndarray, base: float) -> np.ndarray:
    """Each pair (i, i + half) turned by its place times base ** (-i / half)."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] * base ** (-np.arange(half) / half)
    one, other = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Each place sees itself and those before it."""
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
    later = np.triu(np.ones(scores.shape[1:], bool), 1)
    scores[:, later] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    mixed = shares @ value
    return mixed.transpose(1, 0, 2).reshape(query.shape[1], -1)
