"""Masked models by pseudo-log-likelihood, and encoder-decoders over their targets' bytes."""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_lm.cli.main import main
from jax_lm.evaluation.scoring.methods import MethodConfig
from jax_lm.evaluation.scoring.pieces import Scoring
from jax_lm.evaluation.scoring.pseudo import evaluate_masked
from jax_lm.evaluation.scoring.scores import Scores, total
from jax_lm.huggingface.directory import write_directory
from jax_lm.models.base import TokenIds, Unembedding
from jax_lm.models.encoder import Encoder
from jax_lm.models.registry import FAMILIES, init_model
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe
from jax_lm.types import Document, Segment

WINDOW = 16
TEXT = "the cat sat on the mat. blåbær og bringebær! 안녕하세요 the cat, the mat; the end." * 2
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
DOCUMENTS = [
    Document((Segment(TEXT),), "long"),
    Document((Segment("안녕"),), "short"),
    Document((Segment("not this: ", 0.0), Segment("<s>", 1.0, markup=True), Segment("this")), "p"),
    Document((Segment(""),), "empty"),
]
HIDDEN = jax.jit(lambda model, ids, segments: model(ids, segment_ids=segments))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_byte_level_bpe(
        iter([TEXT]), vocab_size=300, min_frequency=2, special_tokens=SPECIAL
    )


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> Encoder:
    ids = TokenIds(
        tokenizer.vocab_size, pad=tokenizer.pad_id, bos=tokenizer.bos_id, eos=tokenizer.eos_id
    )
    shape = {"num_layers": 2, "num_heads": 2, "embed_dim": 16, "context_length": WINDOW}
    config = FAMILIES["roberta"].config(**shape, init_std=0.3).with_tokens(ids)
    return init_model(jax.random.key(2), config)


def log_softmax(hidden: np.ndarray, unembedding: Unembedding, vocab_size: int) -> np.ndarray:
    logits = hidden.astype(np.float64) @ np.asarray(unembedding.weight, np.float64).T
    if unembedding.bias is not None:
        logits = logits + np.asarray(unembedding.bias, np.float64)
    logits = logits[..., :vocab_size]
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def restated(model: Encoder, tokenizer: Tokenizer, ids: list[int], scored: list[int]) -> float:
    """-log p of the scored tokens, each hidden in turn in a window of its own, one at a time."""
    room = WINDOW - 2
    nats = 0.0
    for place in scored:
        begin = place // room * room
        if begin + room > len(ids):
            begin = max(0, len(ids) - room)
        inside = ids[begin : begin + room]
        inside[place - begin] = tokenizer.mask_id
        line = [tokenizer.bos_id, *inside, tokenizer.eos_id]
        padding = [0] * (WINDOW - len(line))
        segments = [1] * len(line) + padding
        hidden = HIDDEN(model, jnp.array([line + padding]), jnp.array([segments]))
        one = np.asarray(hidden)[0, 1 + place - begin]
        nats -= log_softmax(one, model.unembedding, model.config.vocab_size)[ids[place]]
    return nats


@pytest.mark.parametrize("batch_size", [1, 32])
def test_each_token_is_hidden_once(model: Encoder, tokenizer: Tokenizer, batch_size: int) -> None:
    config = MethodConfig(method="pseudo", window=WINDOW, context=1)
    scoring = Scoring(batch_size=batch_size)
    found = total(evaluate_masked(model, tokenizer, DOCUMENTS, config, scoring).scores())
    long, short = (tokenizer.encode_batch([text]).ids.tolist() for text in (TEXT, "안녕"))
    assert len(long) > 2 * WINDOW > 2 * len(short)
    parts = [tokenizer.encode_batch([text]).ids.tolist() for text in ("not this: ", "this")]
    framed = [*parts[0], tokenizer.bos_id, *parts[1]]
    last = list(range(len(parts[0]) + 1, len(framed)))
    expected = (
        restated(model, tokenizer, long, list(range(len(long))))
        + restated(model, tokenizer, short, list(range(len(short))))
        + restated(model, tokenizer, framed, last)
    )
    size = len((TEXT + "안녕this").encode())
    assert found.num_bytes == size
    assert found.num_tokens == len(long) + len(short) + len(parts[1])
    assert found.bits_per_byte == pytest.approx(expected / size / math.log(2), abs=1e-6)


def test_the_verb_scores_documents_of_a_masked_model(
    model: Encoder, tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_directory(model, tokenizer, tmp_path / "model", card="# card")
    (tmp_path / "texts.txt").write_text(TEXT)
    where = [str(tmp_path / "model"), str(tmp_path / "texts.txt"), "--method", "pseudo"]
    assert main(["evaluate", *where, "--output", str(tmp_path)]) == 0
    assert "pseudo (window 16 tokens; each token hidden once" in capsys.readouterr().out
    found = json.loads((tmp_path / "eval_results.json").read_text())
    config = MethodConfig(method="pseudo", window=WINDOW, context=1)
    expected = total(evaluate_masked(model, tokenizer, DOCUMENTS[:1], config).scores())
    assert found["eval_bits_per_byte"] == pytest.approx(expected.bits_per_byte, abs=1e-6)
    assert main(["evaluate", *where[:3], "disjoint"]) == 2
    assert "--method disjoint is for decoders, and roberta" in capsys.readouterr().err
    assert main(["evaluate", *where, "--window", "2"]) == 2
    assert "no room for text" in capsys.readouterr().err
    assert main(["evaluate", *where, "--objective", "masked-lm"]) == 2
    assert "give it text and no --objective" in capsys.readouterr().err


def test_an_encoder_decoder_is_scored_over_its_targets_bytes(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """In and out pairs as text: only what comes out has bytes."""
    ids = TokenIds(
        tokenizer.vocab_size, pad=tokenizer.pad_id, bos=tokenizer.bos_id, eos=tokenizer.eos_id
    )
    shape = {"num_layers": 1, "num_heads": 2, "embed_dim": 16, "head_dim": 8, "mlp_dim": 16}
    config = FAMILIES["t5"].config(**shape, context_length=WINDOW).with_tokens(ids)
    model = init_model(jax.random.key(3), config)
    write_directory(model, tokenizer, tmp_path / "t5", card="# card")
    pairs = [("the cat", "sat on"), ("안녕", "blåbær"), ("the", "mat")]
    lines = [json.dumps({"in_text": first, "out_text": second}) for first, second in pairs * 4]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    where = [str(tmp_path / "t5"), str(tmp_path / "pairs.jsonl"), "--objective", "seq2seq"]
    assert main(["evaluate", *where, "--output", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "eval_results.json").read_text())
    run = jax.jit(lambda *ids: model(ids[0], ids[1], segment_ids=ids[2]))
    nats, size = 0.0, 0
    for first, second in pairs:
        source, target = (tokenizer.encode_batch([one]).ids.tolist() for one in (first, second))
        source = [tokenizer.bos_id, *source, tokenizer.eos_id]
        shifted = [config.decoder_start_id, *target[:-1]]
        rows = (source, shifted, [1] * len(source))
        padded = (jnp.array([row + [0] * (WINDOW - len(row))]) for row in rows)
        hidden = np.asarray(run(*padded))[0]
        scores = log_softmax(hidden, model.unembedding, tokenizer.vocab_size)
        nats -= float(scores[np.arange(len(target)), target].sum())
        size += len(second.encode())
    assert found["sums"]["num_bytes"] == 4 * size
    assert found["eval_bits_per_byte"] == pytest.approx(nats / size / math.log(2), abs=1e-6)
    low, high = found["eval_bits_per_byte_interval"]
    assert low < found["eval_bits_per_byte"] < high


def test_no_documents_no_numbers() -> None:
    assert math.isnan(Scores().word_perplexity)
    assert math.isnan(Scores().bits_per_byte)
