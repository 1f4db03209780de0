"""A session with someone who speaks slowly, for a test that types and presses Ctrl-C."""

import time
from collections.abc import Iterator, Sequence

from jax_lm.chat.conversation import Conversation
from jax_lm.chat.session import ChatSession
from jax_lm.chat.terminal import standard_terminal
from jax_lm.documents.conversations.messages import Message
from jax_lm.generation.sampling import SamplingConfig


class Slow:
    """Counts, a number every tenth of a second; says when it was told to stop."""

    name = "slow"
    num_forgotten = 0
    is_cut = False

    def interrupt(self) -> None:
        print("[told]", flush=True)

    def answer(self, messages: Sequence[Message], sampling: SamplingConfig) -> Iterator[str]:
        limit = 600 if "long" in dict(messages[-1].texts)["content"] else 2
        try:
            for number in range(limit):
                yield f"{number} "
                time.sleep(0.1)
        finally:
            print("[work ended]", flush=True)


if __name__ == "__main__":
    ChatSession(Slow(), standard_terminal(), SamplingConfig(), Conversation()).run()
    print("left")
