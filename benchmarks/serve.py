"""A server under load: 64 streaming clients for a minute, one client, and far too many at once.

    python benchmarks/serve.py [--seconds 60] [--clients 64] [--model MODEL]

Without --model a GPT-2 of 6 layers, 384 wide, random weights: the speed does not depend on what
is written. The server is a process of its own, started as a user starts it; the clients share this
one. One client alone is measured twice: at that server, and at one with a single slot, which does
not compute rows that nobody asked for; the latter is what the throughput is compared with.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recording import record

WORDS = "the model was asked what it had seen on the way and said that nothing was as it had been"
NEW_TOKENS, QUEUE = 64, 64
ALONE_SECONDS = 15


@dataclass
class Answer:
    """What one client saw."""

    status: int
    first: float = 0.0
    """Seconds to the first token."""
    seconds: float = 0.0
    tokens: int = 0
    error: str = ""


@dataclass
class Memory:
    """Resident memory of a process, looked at ten times a second."""

    pid: int
    megabytes: list[float] = field(default_factory=list)

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            self.megabytes.append(self.now())
            await asyncio.sleep(0.1)

    def now(self) -> float:
        """Megabytes at this moment."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) / 1e3 if found else 0.0


def main() -> None:
    """Run the benchmark and write its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--model")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or make_model(Path(folder) / "model")
        with server(model, 1) as (_, port):
            single = asyncio.run(measure_alone(port))
        with server(model, given.clients) as (process, port):
            result = asyncio.run(measure(process.pid, port, given.clients, given.seconds))
            process.send_signal(signal.SIGTERM)
            result["exit_code"] = process.wait(60)
    result["one_slot"] = single
    result["times_one_slot"] = result["tokens_per_second"] / single["tokens_per_second"]
    print(json.dumps(result, indent=1))
    check(result)
    record("serve", result)


def check(result: dict[str, Any]) -> None:
    """Refuse figures of a server that did not do what it says it does."""
    overload = result["overload"]
    wrong = [*result["errors"], *overload["errors"]]
    wrong += [status for status in overload["statuses"] if status not in ("200", "429")]
    if wrong or result["exit_code"] != 0:
        sys.exit(f"not recorded: errors {wrong[:5]}, exit code {result['exit_code']}")


def make_model(path: Path) -> str:
    """A random model with a tokenizer, as a Hugging Face directory."""
    command = [sys.executable, __file__, "--make", str(path)]
    subprocess.run(command, check=True)
    return str(path)


def make(path: str) -> None:
    """Write it; in a process of its own, so that JAX does not share this one with the clients."""
    import argparse as some_text
    import inspect

    import jax

    from jax_lm.huggingface.directory import write_directory
    from jax_lm.models.gpt2 import GPT2, GPT2Config
    from jax_lm.tokenizers.byte_level_bpe import train_byte_level_bpe

    text = inspect.getsource(some_text)
    tokenizer = train_byte_level_bpe(
        iter([text]), vocab_size=4096, min_frequency=2, special_tokens=("<|endoftext|>",)
    )
    config = GPT2Config(
        vocab_size=4096, context_length=512, num_layers=6, num_heads=6, embed_dim=384
    )
    write_directory(GPT2.init(jax.random.key(0), config), tokenizer, Path(path), card="")


@contextmanager
def server(model: str, slots: int) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """``jax-lm serve`` on a free port."""
    command = [sys.executable, "-m", "jax_lm", "serve", model, "--port", "0"]
    command += ["--max-concurrent", str(slots), "--max-queue", str(QUEUE)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", said)
        if found is None:
            sys.exit("the server did not start")
        yield process, int(found[1])
    finally:
        if process.poll() is None:
            process.kill()


async def measure_alone(port: int) -> dict[str, Any]:
    """One client, one thing after the other."""
    await crowd(port, 1, 3.0)
    answers, seconds = await crowd(port, 1, ALONE_SECONDS)
    first = percentiles([one.first for one in answers])
    return {"tokens_per_second": tokens(answers) / seconds, "first_token": first}


async def measure(pid: int, port: int, clients: int, seconds: float) -> dict[str, Any]:
    """Every figure."""
    memory = Memory(pid)
    watching = asyncio.create_task(memory.watch())
    await crowd(port, clients, 5.0)  # compiles what the rest needs
    alone, alone_seconds = await crowd(port, 1, ALONE_SECONDS)
    started = memory.now()
    together, together_seconds = await crowd(port, clients, seconds)
    steady = memory.now()
    memory.megabytes.clear()
    flood = 10 * QUEUE
    answers = await asyncio.gather(*(ask(port, i) for i in range(flood)))
    after = await ask(port, 0)
    watching.cancel()
    alone_speed = tokens(alone) / alone_seconds
    speed = tokens(together) / together_seconds
    return {
        "clients": clients,
        "seconds": together_seconds,
        "new_tokens": NEW_TOKENS,
        "requests": len(together),
        "errors": [one.error or one.status for one in together + alone if one.status != 200],
        "tokens_per_second": speed,
        "tokens_per_second_alone": alone_speed,
        "times_alone": speed / alone_speed,
        "first_token": percentiles([one.first for one in together]),
        "first_token_alone": percentiles([one.first for one in alone]),
        "overload": {
            "requests": flood,
            "statuses": dict(Counter(str(one.status) for one in answers)),
            "errors": [one.error for one in answers if one.error],
            "peak_megabytes": max(memory.megabytes),
            "first_token_afterwards": after.first,
            "seconds_afterwards": after.seconds,
        },
        "megabytes_before": started,
        "megabytes_after_a_minute": steady,
    }


def tokens(answers: Sequence[Answer]) -> int:
    """All that were written."""
    return sum(one.tokens for one in answers)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """The middle and nearly the worst, in seconds."""
    several = seconds if len(seconds) > 1 else [*seconds, *seconds]
    cuts = statistics.quantiles(several, n=100, method="inclusive")
    return {"p50": cuts[49], "p95": cuts[94], "max": max(seconds)}


async def crowd(port: int, count: int, seconds: float) -> tuple[list[Answer], float]:
    """Clients that ask one thing after another until the time is over, and how long it took."""
    began = time.perf_counter()
    answers: list[Answer] = []

    async def client(number: int) -> None:
        while time.perf_counter() - began < seconds:
            answers.append(await ask(port, number))

    await asyncio.gather(*(client(number) for number in range(count)))
    return answers, time.perf_counter() - began


async def ask(port: int, number: int) -> Answer:
    """One request, its answer read to the end."""
    began = time.perf_counter()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request(number))
            answer = await read(reader, began)
        finally:
            writer.close()
    except OSError as error:
        return Answer(0, error=repr(error))
    answer.seconds = time.perf_counter() - began
    return answer


def request(number: int) -> bytes:
    """A prompt of some words, other ones every time."""
    words = random.choices(WORDS.split(), k=12)
    body = json.dumps(
        {
            "prompt": f"{number} {' '.join(words)}",
            "max_tokens": NEW_TOKENS,
            "min_tokens": NEW_TOKENS,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def read(reader: asyncio.StreamReader, began: float) -> Answer:
    """The status, when the first token came, and how many there were."""
    answer = Answer(int((await reader.readline()).split()[1] or 0))
    done = answer.status != 200
    while line := await reader.readline():
        if not line.startswith(b"data: "):
            continue
        answer.first = answer.first or time.perf_counter() - began
        if line.startswith(b"data: [DONE]"):
            done = True
        elif b'"choices":[]' in line:
            answer.tokens = json.loads(line[6:])["usage"]["completion_tokens"]
        elif line.startswith(b'data: {"error"'):
            answer.error = line.decode()
    if not done:
        answer.error = answer.error or "cut off"
    return answer


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(sys.argv[2])
    else:
        main()
