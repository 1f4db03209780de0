"""Reads the files of https://github.com/karpathy/llama2.c: a model's weights, and its tokenizer."""

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from jax_lm.huggingface.official_llama import halves

HEADER = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
BOS = 1


def read_weights(path: Path) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """The header, and the tensors under the names of LLaMA's publisher, whose layout it is.

    Seven int32; then float32: every tensor of all layers in turn, tables of cosines and sines that
    nobody needs, and an output matrix if the vocabulary's size is negative.
    """
    header = dict(zip(HEADER, np.fromfile(path, "<i4", len(HEADER)).tolist(), strict=True))
    values = np.fromfile(path, "<f4", offset=4 * len(HEADER))
    dim, hidden, layers = header["dim"], header["hidden_dim"], header["n_layers"]
    head_dim = dim // header["n_heads"]
    kv_dim, vocabulary = header["n_kv_heads"] * head_dim, abs(header["vocab_size"])
    shapes: dict[str, tuple[int, ...]] = {
        "tok_embeddings": (vocabulary, dim),
        "attention_norm": (layers, dim),
        "attention.wq": (layers, dim, dim),
        "attention.wk": (layers, kv_dim, dim),
        "attention.wv": (layers, kv_dim, dim),
        "attention.wo": (layers, dim, dim),
        "ffn_norm": (layers, dim),
        "feed_forward.w1": (layers, hidden, dim),
        "feed_forward.w2": (layers, dim, hidden),
        "feed_forward.w3": (layers, hidden, dim),
        "norm": (dim,),
        "cosines and sines": (2, header["max_seq_len"], head_dim // 2),
    }
    if header["vocab_size"] < 0:
        shapes["output"] = (vocabulary, dim)
    tensors, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        tensors[name] = values[start : start + size].reshape(shape)
        start += size
    assert start == len(values), "the file has another length than its header says"
    return header, dict(_by_layer(tensors))


def write_directory(path: Path, output: Path) -> None:
    """The model as transformers stores it, the channels of each head in its order."""
    header, tensors = read_weights(path)
    heads = {"wq": header["n_heads"], "wk": header["n_kv_heads"]}
    renamed = {}
    for name, tensor in tensors.items():
        kind = name.split(".")[-2]
        values = halves(tensor, heads[kind]) if kind in heads else tensor
        renamed[_renamed(name)] = np.ascontiguousarray(values)
    save_file(renamed, output / "model.safetensors")
    (output / "config.json").write_text(json.dumps(_config(header)))


def read_tokenizer(path: Path, vocab_size: int) -> tuple[list[bytes], list[float]]:
    """Every token's bytes and score; after an int32, each is a score, a length and bytes."""
    content, start = path.read_bytes(), 4
    pieces, scores = [], []
    for _ in range(vocab_size):
        score, length = struct.unpack_from("<fi", content, start)
        start += 8 + length
        pieces.append(content[start - length : start])
        scores.append(score)
    return pieces, scores


def decoded(pieces: list[bytes], ids: list[int]) -> str:
    """Text of ids after the start-of-sequence token, whose space is dropped."""
    return b"".join(_bytes_of(pieces[i]) for i in ids).decode().removeprefix(" ")


def encoded(pieces: list[bytes], scores: list[float], text: str) -> list[int]:
    """Ids of a text with a space before it, merging the pair with the best score until none is."""
    number = {piece: i for i, piece in enumerate(pieces)}
    ids: list[int] = []
    for character in " " + text:
        raw = character.encode()
        ids += [number[raw]] if raw in number else [byte + 3 for byte in raw]
    while True:
        pairs = [number.get(pieces[a] + pieces[b], -1) for a, b in itertools.pairwise(ids)]
        best = max(range(len(pairs)), key=lambda i: (pairs[i] >= 0, scores[pairs[i]]), default=-1)
        if best < 0 or pairs[best] < 0:
            return ids
        ids[best : best + 2] = [pairs[best]]


def _by_layer(tensors: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    for name, tensor in tensors.items():
        if name in ("tok_embeddings", "norm", "output"):
            yield f"{name}.weight", tensor
        elif name != "cosines and sines":
            for layer, one in enumerate(tensor):
                yield f"layers.{layer}.{name}.weight", one


RENAMED = {
    "tok_embeddings": "model.embed_tokens",
    "norm": "model.norm",
    "output": "lm_head",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
}


def _renamed(name: str) -> str:
    short = name.removesuffix(".weight")
    if not short.startswith("layers."):
        return f"{RENAMED[short]}.weight"
    _, layer, rest = short.split(".", 2)
    return f"model.layers.{layer}.{RENAMED[rest]}.weight"


def _config(header: dict[str, int]) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": abs(header["vocab_size"]),
        "hidden_size": header["dim"],
        "intermediate_size": header["hidden_dim"],
        "num_hidden_layers": header["n_layers"],
        "num_attention_heads": header["n_heads"],
        "num_key_value_heads": header["n_kv_heads"],
        "max_position_embeddings": header["max_seq_len"],
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": header["vocab_size"] > 0,
    }


def _bytes_of(piece: bytes) -> bytes:
    """What a token prints as: ``<0x0A>`` is one byte."""
    if len(piece) == 6 and piece.startswith(b"<0x"):
        return bytes([int(piece[3:5], 16)])
    return piece
