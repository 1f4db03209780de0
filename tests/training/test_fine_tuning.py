"""A published model goes on with other text, on two devices, and is loaded by transformers."""

import math
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jax_lm.loading.rows import open_rows
from jax_lm.trackers.jsonl import read_metrics
from tests.parity.llama2c_files import read_tokenizer, write_directory

BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def field(number: int, value: bytes | int | float) -> bytes:
    """A field of a protocol buffer; all numbers here are below 128, and long values are bytes."""
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low]) if rest == 0 else bytes([low | 128]) + varint(rest)


def write_tokenizer(stories: Path, output: Path) -> None:
    """The tokenizer as SentencePiece stores it: pieces, and that it is BPE with bytes."""
    normal, unknown, control, byte = 1, 2, 3, 6
    model = b""
    pieces, scores = read_tokenizer(stories / "tok512.bin", 512)
    for index, (piece, score) in enumerate(zip(pieces, scores, strict=True)):
        text = piece.decode().replace(" ", "\N{LOWER ONE EIGHTH BLOCK}")
        text = {0: "<unk>", 1: "<s>", 2: "</s>"}.get(index, text)
        kind = {0: unknown, 1: control, 2: control}.get(index, normal)
        if BYTE.fullmatch(text):
            kind = byte
        parts = field(1, text.encode()) + field(2, float(score)) + field(3, kind)
        model += field(1, parts)
    trainer = field(3, 2) + field(35, 1)  # model_type BPE, byte_fallback
    normalizer = field(1, b"identity") + field(3, 1)  # add_dummy_prefix
    (output / "tokenizer.model").write_bytes(model + field(2, trainer) + field(3, normalizer))


@pytest.mark.slow
def test_stories_become_shakespeare(shared_data: Path, tmp_path: Path) -> None:
    stories = shared_data / "weights" / "stories260K"
    model, run = tmp_path / "stories", tmp_path / "run"
    model.mkdir()
    write_directory(stories / "stories260K.bin", model)
    write_tokenizer(stories, model)
    text = (shared_data / "corpora" / "tinyshakespeare" / "input.txt").read_text()
    cut = int(0.9 * len(text))
    (tmp_path / "plays.txt").write_text(text[:cut])
    (tmp_path / "held.txt").write_text(text[cut:])
    command = [
        *(sys.executable, "-m", "jax_lm", "train", "--init-from", str(model)),
        *("--data.train", str(tmp_path / "plays.txt")),
        *("--data.validation", str(tmp_path / "held.txt"), "--data.sequence-length", "128"),
        *("--run-dir", str(run), "--steps", "200", "--batch-size", "8", "--mesh.fsdp", "2"),
        *("--optimizer.learning-rate", "1e-3", "--evaluation.every", "200"),
        *("--evaluation.max-rows", "64"),
    ]
    flags = "--xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_LM_CACHE": str(tmp_path / "cache")}
    subprocess.run(command, check=True, capture_output=True, timeout=900, env=environment)
    rows = [row for row in read_metrics(run / "metrics.jsonl") if "val/loss" in row]
    assert [row["step"] for row in rows] == [0, 200]
    assert rows[1]["val/loss"] < rows[0]["val/loss"] - 0.3

    (prefix,) = (
        str(path).removesuffix(".manifest.json").replace("/_", "/")
        for path in (tmp_path / "cache").rglob("_*.manifest.json")
        if "held.txt" in path.read_text()
    )
    assert theirs(run / "final", prefix, 64) == pytest.approx(rows[1]["val/loss"], rel=1e-5)


def theirs(model: Path, prefix: str, count: int) -> float:
    """The loss that transformers computes on the same rows."""
    import torch
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    rows = open_rows(prefix)
    taken = rows.take(np.arange(min(count, len(rows))))
    ids = torch.tensor(np.asarray(taken.input_ids, np.int64))
    with torch.no_grad():
        logits = loaded(ids[:, :-1]).logits.double().log_softmax(-1)
    losses = -logits.gather(-1, ids[:, 1:, None])[..., 0]
    real = ids[:, 1:] >= 0
    value = float(losses[real].mean())
    assert math.isfinite(value)
    return value
