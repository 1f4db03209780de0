"""A conversation in a terminal: questions, answers and the commands between them."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from jax_lm.chat.conversation import Conversation, load_conversation, num_conversations
from jax_lm.chat.speaker import Speaker
from jax_lm.chat.terminal import Terminal
from jax_lm.errors import JaxLMError, nearest
from jax_lm.generation.sampling import SamplingConfig

HELP = """/system TEXT   what the model is told beforehand; without TEXT: show it
/undo          take back the last question and its answer
/retry         another answer to the last question
/reset         forget the conversation; the system message stays
/save FILE     write the conversation, as one JSON line that every verb reads
/load FILE     go on with one
/set NAME X    change a setting, as in /set temperature 0.5; without NAME: show them
/exit          leave (/quit and Ctrl-D do too)
A line that ends in \\ goes on in the next; \"\"\" begins and ends a text of several lines.
Ctrl-C stops the answer."""
SETTINGS = {
    "max-new-tokens": int,
    "min-new-tokens": int,
    "temperature": float,
    "top-k": int,
    "top-p": float,
    "min-p": float,
    "repetition-penalty": float,
    "seed": int,
}


class ChatSession:
    """Reads, answers and obeys until told to leave."""

    def __init__(
        self,
        speaker: Speaker,
        terminal: Terminal,
        sampling: SamplingConfig,
        conversation: Conversation,
    ) -> None:
        """Ready to talk; nothing is read yet."""
        self._speaker, self._terminal = speaker, terminal
        self._sampling, self._conversation = sampling, conversation
        self._saved: Path | None = None
        self._commands: Mapping[str, Callable[[str], None]] = {
            "help": lambda _: terminal.tell(HELP),
            "system": self._system,
            "undo": self._undo,
            "retry": self._retry,
            "reset": self._reset,
            "save": self._save,
            "load": self._load,
            "set": self._set,
        }

    def run(self) -> None:
        """Talk until the input ends or the person leaves."""
        self._terminal.tell(f"{self._speaker.name}; /help lists the commands")
        while (text := self._read()) is not None:
            if text.startswith("/"):
                if text.split()[0] in ("/exit", "/quit"):
                    return
                self._obey(text)
            elif text.strip():
                self._conversation.ask(text)
                self._answer()

    def _read(self) -> str | None:
        try:
            return self._terminal.read("you> ")
        except JaxLMError as error:
            if not self._terminal.interactive:
                raise
            self._terminal.tell(str(error))
            return ""
        except KeyboardInterrupt:
            self._terminal.tell("\n(Ctrl-D or /exit leaves)")
            return ""

    def _obey(self, text: str) -> None:
        name, _, rest = text[1:].partition(" ")
        if name not in self._commands:
            close = nearest(name, [*self._commands, "exit"])
            self._terminal.tell(f"no command /{name}{close} (/help lists them)")
            return
        try:
            self._commands[name](rest.strip())
        except JaxLMError as error:
            self._terminal.tell(str(error))
        except OSError as error:
            self._terminal.tell(f"{error.filename or rest.strip()}: {error.strerror or error}")

    def _answer(self) -> None:
        """A question that got no answer is taken back, so that turns alternate."""
        try:
            pieces = self._speaker.answer(self._conversation.messages, self._sampling)
            told = self._tell_forgotten(0)
            said, stopped = self._terminal.speak("model", pieces, self._speaker.interrupt)
        except JaxLMError as error:
            self._conversation.undo()
            self._terminal.tell(f"\n{error}")
            return
        self._conversation.answer(said)
        self._tell_forgotten(told)
        if stopped:
            self._terminal.tell("(stopped)")
        elif self._speaker.is_cut:
            self._terminal.tell("(cut: as long as it may be; /set max-new-tokens allows more)")

    def _tell_forgotten(self, told: int) -> int:
        """Before the answer where it is known by then, else after it."""
        count = self._speaker.num_forgotten
        if count != told:
            self._terminal.tell(f"(the first {count} messages no longer fit the context)")
        return count

    def _system(self, text: str) -> None:
        if text:
            self._conversation.system = text
        self._terminal.tell(f"system: {self._conversation.system or '(none)'}")

    def _undo(self, _: str) -> None:
        question = self._conversation.undo()
        said = "nothing to take back" if question is None else f"taken back: {question}"
        self._terminal.tell(said)

    def _retry(self, _: str) -> None:
        question = self._conversation.undo()
        if question is None:
            self._terminal.tell("no question to answer again")
            return
        seed = (self._sampling.seed + 1) % 2**32
        self._sampling = dataclasses.replace(self._sampling, seed=seed)
        self._conversation.ask(question)
        self._answer()

    def _reset(self, _: str) -> None:
        self._conversation.reset()
        self._terminal.tell("forgotten")

    def _save(self, name: str) -> None:
        if not name:
            raise JaxLMError("/save FILE: name a file")
        path = Path(name).expanduser()
        if not path.parent.is_dir():
            raise JaxLMError(f"{name}: no such directory {path.parent}")
        if path.exists() and path != self._saved:
            raise JaxLMError(f"{name}: is there already, and is kept; name another FILE")
        self._conversation.save(path)
        self._saved = path
        self._terminal.tell(f"saved {len(self._conversation.messages)} messages to {name}")

    def _load(self, name: str) -> None:
        if not name:
            raise JaxLMError("/load FILE: name a file")
        path = Path(name).expanduser()
        loaded = load_conversation(path)
        self._conversation.system, self._conversation.turns = loaded.system, loaded.turns
        others = num_conversations(path) - 1
        more = f"; {others:,} more conversations in it are left alone" if others else ""
        self._terminal.tell(f"loaded {len(loaded.messages)} messages from {name}{more}")

    def _set(self, text: str) -> None:
        name, _, value = text.partition(" ")
        if name:
            self._change(name.replace("_", "-"), value.strip())
        values = {key: getattr(self._sampling, key.replace("-", "_")) for key in SETTINGS}
        self._terminal.tell("  ".join(f"{key} {shown}" for key, shown in values.items()))

    def _change(self, name: str, value: str) -> None:
        if name not in SETTINGS:
            raise JaxLMError(f"no setting {name}{nearest(name, SETTINGS)}; /set shows them all")
        try:
            number = SETTINGS[name](value)
        except ValueError:
            raise JaxLMError(f"/set {name} expects a number, not {value or 'nothing'}") from None
        changed = {name.replace("-", "_"): number}
        self._sampling = dataclasses.replace(self._sampling, **changed)
