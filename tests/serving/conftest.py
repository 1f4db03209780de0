"""Servers on real ports, with a decoder that writes what it is told, or a tiny real one."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from jax_lm.documents.conversations.templates import DEFAULT
from jax_lm.errors import UsageError
from jax_lm.generation.requests import Drawn, Request
from jax_lm.serving.decoding.scoring import Scoring
from jax_lm.serving.decoding.worker import Worker
from jax_lm.serving.options import ServeOptions
from jax_lm.serving.running import Server, listen
from jax_lm.serving.served import Served
from jax_lm.tokenizers.base import Tokenizer
from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe

SAYS = "one two three four five blåbær 안녕 six seven eight nine ten. "
END = "<|endoftext|>"
COMPLETIONS = "/v1/completions"


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return train_byte_level_bpe(
        iter([SAYS * 3]), vocab_size=290, min_frequency=2, special_tokens=(END,)
    )


@dataclass
class Scripted:
    """Writes the same words for every prompt, for ever."""

    ids: Sequence[int]
    num_slots: int = 4
    context_length: int = 200
    pace: float = 0.0
    """Seconds a step."""
    fail_at: int | None = None
    """The step that raises."""
    most_read: int = 1000
    """Prompts that can be read together; of more, memory is not enough."""
    reading: float = 0.0
    """Seconds that reading prompts takes."""
    intact: bool = True
    admitted: list[Request] = field(default_factory=list)
    released: int = 0
    steps: int = 0
    slots: dict[int, list[Any]] = field(default_factory=dict)

    @property
    def num_free(self) -> int:
        return self.num_slots - len(self.slots)

    def prompts_at_once(self, length: int) -> int:
        return 2

    def admit(self, requests: Sequence[Request]) -> list[int]:
        time.sleep(self.reading)
        if len(requests) > self.most_read:
            raise RuntimeError("out of memory")
        if any(not request.prompt or request.prompt[0] == 13 for request in requests):
            raise UsageError("13 is not a good beginning")
        free = [slot for slot in range(self.num_slots) if slot not in self.slots]
        chosen = free[: len(requests)]
        assert len(chosen) == len(requests)
        for slot, request in zip(chosen, requests, strict=True):
            self.admitted.append(request)
            self.slots[slot] = [request, 0]
        return chosen

    def step(self) -> list[Drawn]:
        self.steps += 1
        if self.steps == self.fail_at:
            raise RuntimeError("out of memory")
        time.sleep(self.pace)
        drawn = []
        for slot, state in list(self.slots.items()):
            request, made = state
            state[1] = made + 1
            room = self.context_length - len(request.prompt)
            last = made + 1 >= min(request.sampling.max_new_tokens, room)
            token = self.ids[made % len(self.ids)]
            finish = "length" if last else None
            if token in request.sampling.stop_ids:
                finish = "stop"
            drawn.append(Drawn(slot, token, -0.5, finish))
            if finish:
                del self.slots[slot]
        return drawn

    def release(self, slot: int) -> None:
        self.released += 1
        del self.slots[slot]


class Running:
    """A server, and a client of it."""

    def __init__(self, server: Server, served: Served, decoder: Any, port: int) -> None:
        self.server, self.served, self.decoder, self.port = server, served, decoder, port
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)

    def metric(self, name: str) -> float:
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def becomes(self, name: str, value: float, seconds: float = 5.0) -> bool:
        until = time.monotonic() + seconds
        while self.metric(name) != value:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True


def make_served(tokenizer: Tokenizer, decoder: Any, **changes: Any) -> Served:
    own = {"token", "template", "has_template", "score"}
    options = ServeOptions(port=0, **{k: v for k, v in changes.items() if k not in own})
    score = changes.get("score", lambda pairs: [-float(len(target)) for _, target in pairs])
    return Served(
        name="tiny",
        tokenizer=tokenizer,
        template=changes.get("template", DEFAULT),
        has_template=changes.get("has_template", False),
        worker=Worker(decoder, max_queue=options.max_queue),
        scoring=Scoring(score, max_queue=options.max_queue),
        options=options,
        vocab_size=tokenizer.vocab_size,
        token=changes.get("token"),
    )


@contextmanager
def serving(served: Served, decoder: Any) -> Iterator[Running]:
    """Serve in a thread until the block ends."""
    listening = listen(served.options)
    server = Server(served)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    running = Running(server, served, decoder, listening.getsockname()[1])
    try:
        while not server.started:
            time.sleep(0.005)
        yield running
    finally:
        running.client.close()
        server.handle_exit(15, None)
        server.handle_exit(15, None)
        thread.join(20)
        listening.close()
    assert not thread.is_alive()


Serve = Callable[..., Any]


@pytest.fixture(scope="session")
def scripted(tokenizer: Tokenizer) -> Callable[..., Scripted]:
    ids = tokenizer.encode_batch([SAYS]).ids.tolist()
    return lambda **changes: Scripted(ids, **changes)


@pytest.fixture(scope="module")
def server(tokenizer: Tokenizer, scripted: Callable[..., Scripted]) -> Iterator[Running]:
    """One that writes as fast as it can."""
    decoder = scripted()
    with serving(make_served(tokenizer, decoder, max_queue=8), decoder) as running:
        yield running


@pytest.fixture
def serve(tokenizer: Tokenizer, scripted: Callable[..., Scripted]) -> Iterator[Serve]:
    """Starts servers with settings of their own."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start(decoder: Any = None, **changes: Any) -> Running:
            decoder = scripted() if decoder is None else decoder
            served = make_served(tokenizer, decoder, **changes)
            return stack.enter_context(serving(served, decoder))

        yield start


def refused(answer: httpx.Response, status: int, said: str) -> None:
    assert answer.status_code == status, answer.text
    message = answer.json()["error"]["message"]
    assert said in message
    assert "\n" not in message


@contextmanager
def streaming(server: Running) -> Iterator[Any]:
    body = {"prompt": "say", "max_tokens": 90_000, "stream": True}
    with server.client.stream("POST", COMPLETIONS, json=body) as answer:
        assert answer.status_code == 200
        yield answer.iter_lines()
