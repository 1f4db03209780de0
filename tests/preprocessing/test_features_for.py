"""A feature PREFIX as it is, a SPEC by way of the cache."""

import pytest

from jax_lm.errors import JaxLMError
from jax_lm.preprocessing.cache import features_for
from jax_lm.preprocessing.features import open_features
from jax_lm.preprocessing.manifest import feature_files, manifest_path
from jax_lm.remote.caching import cache_directory
from tests.preprocessing.preprocessing_fakes import READS, ByteTokenizer, ListSource, document

SOURCE = ListSource([document("Blåbærsyltetøy. ") for _ in range(8)])


@pytest.fixture
def cached(make, tmp_path, monkeypatch, with_fakes):
    """``cached(spec, **options)`` with the cache in a temporary folder."""
    monkeypatch.setenv("JAX_LM_CACHE", str(tmp_path / "cache"))
    with_fakes(SOURCE)
    directory = tmp_path / "tokenizer"
    ByteTokenizer().save(directory)
    said: list[str] = []

    def run(spec="text", **options):
        given = {"tokenizer": directory, "sequence_length": 8, "say": said.append, **options}
        return features_for(spec, **given)

    run.said = said
    return run


def test_a_spec_is_preprocessed_once_and_then_reused(cached, tmp_path):
    prefix = cached()
    assert prefix.startswith(str(tmp_path / "cache" / "features"))
    assert cached.said[0] == f"preprocessing text into {prefix}"
    assert open_features(prefix).sequence_length == 8
    READS.clear()
    assert cached() == prefix
    assert READS == []
    assert cached.said[-1] == f"using cached features of text: {prefix}"


def test_another_length_or_source_is_another_entry(cached, with_fakes):
    first, second = cached(), cached(sequence_length=4)
    with_fakes(ListSource(SOURCE.documents[:5]))
    assert len({first, second, cached()}) == 3


def test_a_damaged_entry_is_made_anew_and_said(cached):
    prefix = cached()
    feature_files(prefix)[0].write_bytes(b"broken")
    assert cached() == prefix
    assert any("making cached features anew" in line for line in cached.said)
    assert open_features(prefix)


def test_a_prefix_is_used_as_it_is_if_it_fits(cached, make):
    make(SOURCE)
    assert cached(make.prefix) == make.prefix
    assert cached(make.prefix, tokenizer=None) == make.prefix
    assert cached.said == []
    with pytest.raises(JaxLMError, match=r"rows of 8, the model wants 16.*-sequence-length 16"):
        cached(make.prefix, sequence_length=16)


def test_another_tokenizer_is_refused(cached, make, tmp_path):
    make(SOURCE)
    other = tmp_path / "other"
    ByteTokenizer(eos=False).save(other)
    fingerprints = [ByteTokenizer().fingerprint()[:12], ByteTokenizer(eos=False).fingerprint()[:12]]
    with pytest.raises(
        JaxLMError, match=f"{fingerprints[0]}.*other, which is {fingerprints[1]}: prepro"
    ):
        cached(make.prefix, tokenizer=other)


def test_an_incomplete_set_is_not_taken_for_text(cached, make):
    make(SOURCE)
    manifest_path(make.prefix).unlink()
    with pytest.raises(JaxLMError, match="no features at"):
        cached(make.prefix)


def test_text_without_a_tokenizer_says_which_flag(cached):
    with pytest.raises(JaxLMError, match=r"pass --data\.tokenizer"):
        cached("some.txt", tokenizer=None)


def test_the_cache_is_at_home_unless_told(monkeypatch, tmp_path):
    monkeypatch.delenv("JAX_LM_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "jax-lm"
