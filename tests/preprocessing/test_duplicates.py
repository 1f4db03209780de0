import itertools
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jax_lm.errors import UsageError
from jax_lm.preprocessing.deduplication.finding import (
    Duplicates,
    find_duplicates,
    num_band_rows,
)
from jax_lm.preprocessing.deduplication.shingles import WordHashes, shingles
from jax_lm.preprocessing.deduplication.signatures import (
    EXACT,
    NEAR,
    compared_text,
    signatures,
)
from jax_lm.types import Document, Segment

SENTENCE = "it was a bright cold day in april and the clocks were striking thirteen"


def words_of(seed: int, count: int) -> list[str]:
    drawn = random.Random(seed)
    return [f"w{drawn.randrange(5000)}" for _ in range(count)]


def altered(text: str, share: float, words: list[str], drawn: random.Random) -> str:
    changed = text.split()
    for place in drawn.sample(range(len(changed)), max(1, round(share * len(changed)))):
        changed[place] = drawn.choice(words)
    return " ".join(changed)


def dropped(texts: list[str], *, near: bool = True, **settings: float) -> dict[int, int]:
    """Text left out -> text kept in its place."""
    (found,) = find_duplicates([signatures(texts, near=near)], near=near, **settings)
    return dict(zip(found.ordinals.tolist(), found.kept.tolist(), strict=True))


def test_novels_with_planted_copies(shared_data: Path) -> None:
    """200 exact copies, 200 with 1 % of the words altered, 200 with 30 %, among 5,000 passages."""
    paths = sorted((shared_data / "corpora/english100/corpus").glob("*.txt"))
    words = [word for path in paths for word in path.read_text("utf-8").split()]
    passages = [" ".join(words[i * 200 : (i + 1) * 200]) for i in range(5000)]
    drawn = random.Random(0)
    chosen = drawn.sample(range(5000), 600)
    planted = [("exact", i, passages[i]) for i in chosen[:200]]
    planted += [("near", i, altered(passages[i], 0.01, words, drawn)) for i in chosen[200:400]]
    planted += [("other", i, altered(passages[i], 0.3, words, drawn)) for i in chosen[400:]]
    placed = [(float(i), "original", i, text) for i, text in enumerate(passages)]
    placed += [(drawn.uniform(i + 0.5, 5000), kind, i, text) for kind, i, text in planted]
    placed.sort()
    left_out = dropped([text for *_, text in placed])
    kinds = [placed[i][1] for i in left_out]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"exact": 200, "near": 200}
    for copy, kept in left_out.items():
        assert kept < copy
        assert placed[kept][1:3] == ("original", placed[copy][2])


@pytest.mark.parametrize("cuts", [[], [1], [500, 501, 900], [0, 0, 1000]])
def test_the_result_does_not_depend_on_shards(cuts: list[int]) -> None:
    drawn = random.Random(1)
    texts = [" ".join(words_of(seed, 80)) for seed in range(800)]
    texts += [altered(drawn.choice(texts), 0.01, ["x"], drawn) for _ in range(100)]
    texts += [drawn.choice(texts) for _ in range(100)]
    drawn.shuffle(texts)
    whole = dropped(texts)
    bounds = [0, *cuts, len(texts)]
    parts = [signatures(texts[a:b], near=True) for a, b in itertools.pairwise(bounds)]
    found = find_duplicates(parts, near=True)
    together = {
        a + i: kept
        for a, part in zip(bounds, found, strict=False)
        for i, kept in zip(part.ordinals.tolist(), part.kept.tolist(), strict=True)
    }
    assert together == whole
    assert 190 <= len(whole) <= 200


def test_the_batches_of_signatures_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [" ".join(words_of(seed, seed)) for seed in range(60)]
    together = signatures(texts, near=True)
    monkeypatch.setattr("jax_lm.preprocessing.deduplication.signatures.BATCH_CHARACTERS", 1)
    monkeypatch.setattr("jax_lm.preprocessing.deduplication.shingles.CACHED_WORDS", 3)
    assert (signatures(iter(texts), near=True) == together).all()


def test_another_process_makes_the_same_signature() -> None:
    program = (
        "from jax_lm.preprocessing.deduplication.signatures import signatures;"
        f"print(signatures([{SENTENCE!r}], near=True).tobytes().hex())"
    )
    environment = {"PYTHONHASHSEED": "7"}
    other = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert other.stdout.strip() == signatures([SENTENCE], near=True).tobytes().hex()


def test_exact_copies_alone() -> None:
    texts = ["a", "b", "a", "", "", f"{SENTENCE}!", SENTENCE, "a"]
    assert dropped(texts, near=False) == {2: 0, 4: 3, 7: 0}
    (found,) = find_duplicates([signatures(texts, near=False)], near=False)
    assert found.exact.all()


def test_near_copies_know_which_are_exact_and_forgive_case_and_punctuation() -> None:
    texts = [SENTENCE, SENTENCE, f"«{SENTENCE.upper()}»!", "quite another thing that no one said"]
    (found,) = find_duplicates([signatures(texts, near=True)], near=True)
    assert found.ordinals.tolist() == [1, 2]
    assert found.kept.tolist() == [0, 0]
    assert found.exact.tolist() == [True, False]


def test_short_texts_are_compared_exactly() -> None:
    texts = ["yes please do that", "Yes please do that", "yes please do that", "안녕", "안녕", ""]
    assert dropped(texts) == {2: 0, 4: 3}


def test_korean_and_unspaced_scripts_have_words_too() -> None:
    counts = shingles(
        ["오늘 날씨 정말 좋다 그래 가자", "我今天很高兴见到你", "きょうはいいてんき"], WordHashes()
    )
    assert counts.counts.tolist() == [2, 5, 5]
    drawn = random.Random(0)
    han = "".join(chr(0x4E00 + drawn.randrange(3000)) for _ in range(300))
    assert dropped([han, han[:150] + "新" + han[150:], han[::-1]]) == {1: 0}


def test_ascii_words_are_what_the_expression_finds() -> None:
    text = "".join(map(chr, range(128))) + " it's a_b 3.5 C++ x-y"
    assert (
        shingles([text], WordHashes()).hashes.tolist()
        == (shingles([text + " é"], WordHashes()).hashes.tolist()[:-1])
    )


def test_a_family_keeps_its_first_whatever_joins_it() -> None:
    drawn = random.Random(4)
    base = " ".join(words_of(0, 300))
    family = [base]
    for _ in range(20):
        family.append(altered(family[-1], 0.01, ["x"], drawn))
    assert dropped(family) == dict.fromkeys(range(1, 21), 0)


def test_a_crowded_bucket_of_unlike_texts_is_left_alone() -> None:
    boilerplate = " ".join(words_of(1, 60))
    texts = [f"{boilerplate} {' '.join(words_of(seed, 120))}" for seed in range(2, 300)]
    assert dropped(texts) == {}


def test_the_estimate_is_that_of_datasketch() -> None:
    datasketch = pytest.importorskip("datasketch")
    drawn = random.Random(2)
    one = " ".join(words_of(3, 400))
    for share in (0.01, 0.05, 0.2):
        pair = [one, altered(one, share, ["x", "y"], drawn)]
        mine = signatures(pair, near=True)["minhash"]
        theirs = []
        for text in pair:
            words = text.split()
            runs = [" ".join(words[i : i + 5]).encode() for i in range(len(words) - 4)]
            theirs.append(datasketch.MinHash(num_perm=128))
            theirs[-1].update_batch(runs)
        assert abs((mine[0] == mine[1]).mean() - theirs[0].jaccard(theirs[1])) < 0.15


def test_hash_functions_estimate_without_bias() -> None:
    drawn = random.Random(5)
    errors = []
    for seed in range(300):
        one = " ".join(words_of(seed, 120))
        other = altered(one, 0.05, words_of(seed + 1000, 50), drawn)
        sets = [set(shingles([text], WordHashes()).hashes.tolist()) for text in (one, other)]
        jaccard = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        minhash = signatures([one, other], near=True)["minhash"]
        errors.append((minhash[0] == minhash[1]).mean() - jaccard)
    assert abs(np.mean(errors)) < 0.008
    assert 0.035 < np.std(errors) < 0.05


def test_bands_miss_few_at_the_threshold() -> None:
    assert num_band_rows(0.8) == 5
    assert num_band_rows(0.5) == 2
    assert num_band_rows(1.0) == 128
    assert num_band_rows(0.01) == 1


def test_thresholds_are_obeyed() -> None:
    drawn = random.Random(6)
    one = " ".join(words_of(9, 400))
    texts = [one, altered(one, 0.04, ["x"], drawn)]  # about 0.7
    assert dropped(texts, threshold=0.8) == {}
    assert dropped(texts, threshold=0.5) == {1: 0}
    for threshold in (0, 1.5):
        with pytest.raises(UsageError, match="expected above 0, at most 1"):
            dropped(texts, threshold=threshold)


def test_nothing_has_no_copies() -> None:
    assert find_duplicates([], near=True) == []
    empty = signatures([], near=True)
    assert (empty.dtype, len(empty)) == (NEAR, 0)
    (found,) = find_duplicates([empty], near=True)
    assert isinstance(found, Duplicates)
    assert found.ordinals.tolist() == []
    assert signatures([], near=False).dtype == EXACT
    assert dropped([""] * 3) == {1: 0, 2: 0}


def test_what_is_compared_is_what_people_wrote() -> None:
    segments = (Segment("User: ", 0.0, markup=True), Segment("q", 0.0), Segment("a"))
    assert compared_text(Document(segments, id="x")) == "qa"
    assert compared_text(Document((Segment("", ids=np.array([7, 8])),), id="x")) == "7 8"
    assert NEAR.itemsize == 532
    assert EXACT.itemsize == 16
