"""What has been said so far, and how it is kept in a file."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from jax_lm.documents.conversations.messages import (
    ASSISTANT,
    SYSTEM,
    USER,
    Message,
    message,
    read_messages,
)
from jax_lm.documents.malformed import RecordError
from jax_lm.errors import JaxLMError
from jax_lm.files.atomic import write_text


@dataclass
class Conversation:
    """A system message, if there is one, and turns that alternate."""

    system: str = ""
    turns: list[Message] = field(default_factory=list)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything, as a chat template takes it."""
        lead = (message(SYSTEM, self.system),) if self.system else ()
        return (*lead, *self.turns)

    def ask(self, text: str) -> None:
        """The user's turn."""
        self.turns.append(message(USER, text))

    def answer(self, text: str) -> None:
        """The model's turn; an answer that was stopped before its first word is one too."""
        self.turns.append(message(ASSISTANT, text))

    def undo(self) -> str | None:
        """Take back the last question with its answer; gives the question, None without one."""
        places = [place for place, one in enumerate(self.turns) if one.role == USER]
        if not places:
            return None
        question = dict(self.turns[places[-1]].texts)["content"]
        del self.turns[places[-1] :]
        return question

    def reset(self) -> None:
        """Forget all turns; the system message stays."""
        self.turns.clear()

    def save(self, path: Path) -> None:
        """Write one JSON line that every verb reads as a document.

        Raises:
            OSError: the file cannot be written.
        """
        plain = [{"role": one.role, "content": dict(one.texts)["content"]} for one in self.messages]
        write_text(path, json.dumps({"messages": plain}, ensure_ascii=False) + "\n")


def load_conversation(path: Path) -> Conversation:
    """The first conversation of a JSON Lines file, such as ``save`` writes.

    Raises:
        JaxLMError: there is none in the file.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            record = json.loads(next(iter(lines), "null"))
        items = record.get("messages") if isinstance(record, dict) else None
        messages = read_messages(items, "messages")
    except (ValueError, RecordError) as error:
        raise JaxLMError(
            f'{path}: line 1 is not a conversation ({error}); expected {{"messages": [...]}}'
        ) from error
    system = messages[0] if messages[0].role == SYSTEM else None
    said = "" if system is None else dict(system.texts)["content"]
    return Conversation(said, list(messages[system is not None :]))


def num_conversations(path: Path) -> int:
    """Lines of a file that are not empty."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        return sum(bool(line.strip()) for line in lines)
