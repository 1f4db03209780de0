"""Tokens a second of greedy decoding, and time to the first token, beside transformers' generate.

    python benchmarks/generate.py [--repetitions N]

GPT-2's 124M shape with random weights; 1 and 16 prompts of 32 tokens, 64 new tokens each. On a CPU
in float32; where JAX finds a GPU in bfloat16, and against transformers' static cache as well. Every
side is ready before it is timed: ours holds a ``SlotDecoder``, theirs a model; both have written
the same number of tokens before. Each runs in a process of its own, and they take turns, so that a
busy machine slows all of them alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from recording import record

VOCABULARY, PROMPT, NEW = 50_257, 32, 64
BATCHES = (1, 16)
WARM = 1
SIDES = {"cpu": ("jax_lm", "transformers"), "gpu": ("jax_lm", "transformers", "static")}

Write = Callable[[], tuple[float, float]]
"""Writes texts; seconds to the first token, and in all."""


def main() -> None:
    """Measure what this machine can show, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(json.loads(given.worker))
        return
    platform = "gpu" if has_gpu() else "cpu"
    runs = [race(platform, batch, given.repetitions) for batch in BATCHES]
    shape = {"prompt_tokens": PROMPT, "new_tokens": NEW}
    record("generate" if platform == "cpu" else "generate_gpu", {**shape, "runs": runs})


def has_gpu() -> bool:
    """Asked in a process of its own, which then lets go of the device."""
    command = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return found.stdout.split()[-1] == "gpu"


def race(platform: str, batch: int, repetitions: int) -> dict[str, Any]:
    """Medians of all sides, who take turns."""
    workers = {side: start(platform, side, batch) for side in SIDES[platform]}
    ready = {side: read(worker) for side, worker in workers.items()}
    taken: dict[str, list[dict[str, float]]] = {side: [] for side in workers}
    for _ in range(WARM + repetitions):
        for side, worker in workers.items():
            assert worker.stdin is not None
            worker.stdin.write("write\n")
            worker.stdin.flush()
            taken[side].append(read(worker))
    found: dict[str, Any] = {"batch": batch, "platform": platform}
    for side, worker in workers.items():
        worker.communicate()
        timed = taken[side][WARM:]
        seconds = statistics.median(one["seconds"] for one in timed)
        found[side] = {
            **ready[side],
            "seconds": seconds,
            "tokens_per_second": batch * NEW / seconds,
            "most_tokens_per_second": batch * NEW / min(one["seconds"] for one in timed),
            "first_token_seconds": statistics.median(one["first"] for one in timed),
        }
    print(json.dumps(found))
    return found


def start(platform: str, side: str, batch: int) -> "subprocess.Popen[str]":
    """A process that writes texts for every line it is sent."""
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", json.dumps([platform, side, batch])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )


def read(worker: "subprocess.Popen[str]") -> dict[str, Any]:
    """The next line of a worker."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        sys.exit("a worker ended before its time; its message is above")
    values: dict[str, Any] = json.loads(line)
    return values


def work(given: tuple[str, str, int]) -> None:
    """Be one of the processes."""
    platform, side, batch = given
    prompts = np.random.default_rng(0).integers(0, VOCABULARY, (batch, PROMPT)).tolist()
    make = ours if side == "jax_lm" else theirs
    write, known = make(platform, prompts, static=side == "static")
    print(json.dumps(known), flush=True)
    for _ in sys.stdin:
        first, seconds = write()
        print(json.dumps({"first": first, "seconds": seconds}), flush=True)


def ours(platform: str, prompts: list[list[int]], *, static: bool) -> tuple[Write, dict[str, Any]]:
    """The slots that ``jax-lm generate`` and the server decode in."""
    import jax

    from jax_lm.generation.requests import Request
    from jax_lm.generation.sampling import SamplingConfig
    from jax_lm.generation.slots import SlotDecoder
    from jax_lm.models.gpt2 import GPT2, GPT2Config

    dtype = "float32" if platform == "cpu" else "bfloat16"
    model = GPT2.init(jax.random.key(0), GPT2Config(vocab_size=VOCABULARY))
    decoder = SlotDecoder(model, num_slots=len(prompts), eos_id=None, dtype=dtype)
    config = SamplingConfig(max_new_tokens=NEW, temperature=0.0)

    def write() -> tuple[float, float]:
        began = time.perf_counter()
        decoder.admit([Request(prompt, config) for prompt in prompts])
        decoder.step()
        first = time.perf_counter() - began
        while decoder.step():
            pass
        return first, time.perf_counter() - began

    return write, {"jax": jax.__version__, "dtype": dtype}


def theirs(
    platform: str, prompts: list[list[int]], *, static: bool
) -> tuple[Write, dict[str, Any]]:
    """``generate`` of transformers, with its default cache or the static one, which it compiles."""
    import torch
    import transformers

    dtype = torch.float32 if platform == "cpu" else torch.bfloat16
    device = "cpu" if platform == "cpu" else "cuda"
    config = transformers.GPT2Config(vocab_size=VOCABULARY)
    model = transformers.GPT2LMHeadModel(config).to(device, dtype).eval()
    ids = torch.tensor(prompts, device=device)
    model.generation_config.eos_token_id = None  # both sides write on and look for no end

    def timed(new_tokens: int) -> float:
        began = time.perf_counter()
        written = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
            **({"cache_implementation": "static"} if static else {}),
        )
        assert written.cpu().shape[1] == PROMPT + new_tokens
        return time.perf_counter() - began

    def write() -> tuple[float, float]:
        return timed(1), timed(NEW)

    known = {"transformers": transformers.__version__, "torch": torch.__version__}
    return write, {**known, "dtype": str(dtype).removeprefix("torch.")}


if __name__ == "__main__":
    main()
