"""Leaving out documents that came before, through the whole making of a set."""

import random

from jax_lm.preprocessing.describe import describe
from jax_lm.preprocessing.manifest import read_manifest
from tests.preprocessing.preprocessing_fakes import ByteTokenizer, ListSource, document

WORDS = [
    "katt",
    "hund",
    "fisk",
    "fugl",
    "ku",
    "gris",
    "sau",
    "geit",
    "hest",
    "mus",
    "rotte",
    "elg",
    "bjørn",
    "ulv",
    "rev",
    "gaupe",
]


def passages(count: int) -> list[str]:
    chance = random.Random(1)
    return [" ".join(chance.choices(WORDS, k=80)) for _ in range(count)]


def rows_of(make, texts, name, **options):
    prefix = make.prefix + name
    manifest = make(ListSource([document(text) for text in texts]), prefix, **options)
    return manifest, prefix


def test_exact_copies_are_left_out_across_shards_and_counted(make):
    originals = passages(6)
    texts = [*originals, originals[0], "new", originals[3]]
    manifest, prefix = rows_of(make, texts, "a", deduplicate="exact")
    assert manifest.dropped == {"exact copy": 2}
    assert manifest.totals.documents == 7
    assert len(manifest.files) > 3
    expected, _ = rows_of(make, [*originals, "new"], "b")
    assert manifest.totals.num_bytes == expected.totals.num_bytes
    assert "left out    2 exact copy" in describe(prefix, manifest, ByteTokenizer())
    assert "leaving out 2 exact copies" in "\n".join(make.said)


def test_near_copies_are_left_out_only_where_asked_for(make):
    originals = passages(4)
    near = originals[1].rsplit(" ", 1)[0] + " annerledes"
    texts = [*originals, near]
    manifest, _ = rows_of(make, texts, "a", deduplicate="near")
    assert manifest.dropped == {"near copy": 1}
    manifest, _ = rows_of(make, texts, "b", deduplicate="exact")
    assert manifest.dropped == {}


def test_the_setting_is_part_of_the_plan(make):
    make(ListSource([document(text) for text in passages(3)]), deduplicate="exact")
    assert read_manifest(make.prefix).settings["deduplicate"] == "exact"


def test_the_table_of_subsets_counts_what_is_there(make):
    source = ListSource(
        [document("abc", subset="x"), document("de", subset="y"), document("f", subset="x")]
    )
    manifest = make(source, max_sequence_length=4, shard_size=2)
    parts = manifest.subsets
    assert [(name, part.documents, part.tokens) for name, part in parts.items()] == [
        ("x", 2, 4),
        ("y", 1, 2),
    ]
    assert sum(part.rows for part in parts.values()) == manifest.totals.rows
    lines = describe(make.prefix, manifest, ByteTokenizer())
    assert lines[-2].split() == ["x", "2", "4", "1.00", str(parts["x"].rows)]
