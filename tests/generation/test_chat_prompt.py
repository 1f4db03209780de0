import pytest

from jax_lm.documents.conversations.messages import ASSISTANT, SYSTEM, USER, message
from jax_lm.documents.conversations.templates import ChatTemplate, chat_template
from jax_lm.errors import UsageError
from jax_lm.generation.chat_prompt import chat_prompt, fitting_prompt
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe

PLAIN = chat_template("plain")
TALK = tuple(message(role, f"{role} says {n}") for n in range(4) for role in (USER, ASSISTANT))[:-1]


def trained(*special: str) -> Tokenizer:
    texts = iter(["User: says\nAssistant: says\n"] * 9)
    return train_byte_level_bpe(texts, vocab_size=300, special_tokens=special)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return trained("<|im_start|>", "<|im_end|>")


def test_the_start_token_leads_as_in_training_unless_the_template_is_a_model_s_own() -> None:
    tokenizer = trained("<|endoftext|>")
    own = ChatTemplate("own", "{% for m in messages %}{{ m['content'] }};{% endfor %}")
    assert tokenizer.eos_id is not None
    assert chat_prompt(TALK, PLAIN, tokenizer).ids[0] == tokenizer.eos_id
    assert tokenizer.eos_id not in chat_prompt(TALK, own, tokenizer).ids


def test_an_ending_that_is_a_special_token_is_an_id(tokenizer: Tokenizer) -> None:
    prompt = chat_prompt(TALK, chat_template("chatml"), tokenizer)
    (end,) = prompt.stop_ids
    assert tokenizer.token_text(end) == "<|im_end|>"
    assert prompt.stop == ()
    assert prompt.ids.count(end) == len(TALK)


def test_an_ending_that_is_text_is_a_stop_string(tokenizer: Tokenizer) -> None:
    prompt = chat_prompt(TALK, PLAIN, tokenizer)
    assert (prompt.stop, prompt.stop_ids) == (("\n",), ())
    assert tokenizer.decode(prompt.ids).endswith("User: user says 3\nAssistant: ")


def test_the_oldest_turns_are_forgotten_and_the_system_s_message_is_not(
    tokenizer: Tokenizer,
) -> None:
    messages = (message(SYSTEM, "be brief"), *TALK)
    whole = chat_prompt(messages, PLAIN, tokenizer)
    fitted = fitting_prompt(messages, PLAIN, tokenizer, most=len(whole.ids) - 1)
    text = tokenizer.decode(fitted.ids)
    assert fitted.num_forgotten == 2
    assert text.startswith("System: be brief\nUser: user says 1\n")
    assert fitting_prompt(messages, PLAIN, tokenizer, most=len(whole.ids)) == whole


def test_a_last_message_that_is_too_long_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match="the last message does not fit: with it the prompt has"):
        fitting_prompt(TALK, PLAIN, tokenizer, most=5)


def test_a_refusing_template_is_a_sentence(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match="no place for the role system"):
        chat_prompt([message(SYSTEM, "x")], chat_template("dsgpt2"), tokenizer)


@pytest.mark.parametrize("most", range(20, 130, 7))
def test_no_message_is_forgotten_that_would_have_fit(most: int, tokenizer: Tokenizer) -> None:
    starts = range(0, len(TALK), 2)
    lengths = {start: len(chat_prompt(TALK[start:], PLAIN, tokenizer).ids) for start in starts}
    expected = min(start for start, length in lengths.items() if length <= most)
    assert fitting_prompt(TALK, PLAIN, tokenizer, most=most).num_forgotten == expected


def test_little_more_is_read_than_fits(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counting(messages, *rest):
        read.append(len(messages))
        return chat_prompt(messages, *rest)

    monkeypatch.setattr("jax_lm.generation.chat_prompt.chat_prompt", counting)
    long = [*TALK[:-1]] * 100 + [TALK[-1]]
    prompt = fitting_prompt(long, PLAIN, tokenizer, most=150)
    assert max(read) <= 2 * (len(long) - prompt.num_forgotten)
    assert len(read) < 12
