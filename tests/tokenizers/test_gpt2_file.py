"""OpenAI's own vocabulary, as others publish it."""

from pathlib import Path

from jax_lm.tokenizers.pretrained import load_tokenizer


def test_saving_changes_nothing(shared_data: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(shared_data / "tokenizers/gpt2/gpt2_tokenizer.json")
    tokenizer.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert again.fingerprint() == tokenizer.fingerprint()
    text = ["blåbær <|endoftext|> 안녕"]
    assert again.encode_batch(text).ids.tolist() == tokenizer.encode_batch(text).ids.tolist()
