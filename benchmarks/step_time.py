"""Time of a training step (forward, backward, clipping, AdamW), beside PyTorch's.

    python benchmarks/step_time.py [--repetitions N]

Where JAX finds a GPU: GPT-2 124M and a LLaMA of 1.1B parameters in bfloat16 beside torch.compile.
Elsewhere: a small GPT-2 in float32 and bfloat16 beside eager PyTorch, and the first call and the
step of GPT-2 124M with its layers scanned and unrolled. Every model runs in a process of its own;
on a CPU their steps take turns, so that a busy machine slows all of them alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from recording import record

SMALL = {"preset": "gpt2", "vocab_size": 8192, "num_layers": 6, "num_heads": 6, "embed_dim": 384}
SMALL |= {"context_length": 256, "batch": 8, "dropout": 0.0}
FIRST_CALL = {"preset": "gpt2", "context_length": 256, "batch": 1, "dropout": 0.0}
ON_GPU = [
    {"preset": preset, "context_length": length, "batch": 16_384 // length, "dropout": 0.0}
    for preset in ("gpt2", "tinyllama-1.1b")
    for length in (1024, 2048)
]
FIRST_CALLS = 3
WARM_STEPS = 2


def main() -> None:
    """Measure what this machine can show, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        work(json.loads(given.worker))
        return
    import jax

    if jax.default_backend() == "gpu":
        record("step_time_gpu", on_gpu(given.repetitions))
    else:
        record("step_time", on_cpu(given.repetitions))


def on_cpu(repetitions: int) -> dict[str, Any]:
    """The small model by turns, and the first call of a larger one."""
    runs = [
        {**SMALL, "side": side, "dtype": dtype}
        for dtype in ("float32", "bfloat16")
        for side in ("jax_lm", "torch")
    ]
    steps = race(runs, repetitions)
    first_runs = [{**FIRST_CALL, "side": "jax_lm", "unroll": unroll} for unroll in (False, True)]
    tries = [race([run], 5)[0] for _ in range(FIRST_CALLS) for run in first_runs]
    first = {
        name: {
            key: statistics.median(found[key] for found in tries[start::2])
            for key in ("compile_seconds", "first_call_seconds", "seconds")
        }
        for name, start in (("scanned", 0), ("unrolled", 1))
    }
    return {"small": SMALL, "steps": steps, "first_call_model": FIRST_CALL, "first_call": first}


def on_gpu(repetitions: int) -> dict[str, Any]:
    """One model after the other has the device for itself."""
    return {
        "steps": [
            race([{**model, "side": side, "dtype": "bfloat16"}], repetitions)[0]
            for model in ON_GPU
            for side in ("jax_lm", "torch")
        ]
    }


def race(runs: list[dict[str, Any]], repetitions: int) -> list[dict[str, Any]]:
    """Each run with its median seconds a step and its tokens a second, steps taken by turns."""
    workers = [start(run) for run in runs]
    ready = [read(worker) for worker in workers]
    steps: list[list[dict[str, float]]] = [[] for _ in runs]
    for _ in range(WARM_STEPS + repetitions):
        for worker, taken in zip(workers, steps, strict=True):
            assert worker.stdin is not None
            worker.stdin.write("step\n")
            worker.stdin.flush()
            taken.append(read(worker))
    results = []
    for run, worker, known, taken in zip(runs, workers, ready, steps, strict=True):
        final = json.loads(worker.communicate()[0])
        timed = [step["seconds"] for step in taken[WARM_STEPS:]]
        tokens = run["batch"] * run["context_length"]
        found = {**run, **known, **final, "seconds": statistics.median(timed)}
        found |= {"least_seconds": min(timed), "losses": [taken[0]["loss"], taken[-1]["loss"]]}
        found |= {"tokens_per_second": tokens / found["seconds"]}
        if known.get("peak_flops"):
            found["mfu"] = found["tokens_per_second"] * known["token_flops"] / known["peak_flops"]
        print(json.dumps(found))
        results.append(found)
    return results


def start(run: dict[str, Any]) -> "subprocess.Popen[str]":
    """A process that takes a step for every line it is sent."""
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", json.dumps(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )


def read(worker: "subprocess.Popen[str]") -> dict[str, Any]:
    """The next line of a worker."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        sys.exit("a worker ended before its time; its message is above")
    values: dict[str, Any] = json.loads(line)
    return values


def work(run: dict[str, Any]) -> None:
    """Be one of the processes: say what the first call took, then a line for every step."""
    shape = {key: run[key] for key in run if key not in ("preset", "batch", "side", "dtype")}
    unroll = shape.pop("unroll", None)
    if run["side"] == "jax_lm":
        from jax_lm.training.freed_memory import keep_freed_memory

        keep_freed_memory()  # as `jax-lm train` does
    from jax_lm.models.presets import preset

    config = replace(preset(run["preset"]), **shape)
    random = np.random.default_rng(0)
    rows = random.integers(0, config.vocab_size, (run["batch"], config.context_length + 1))
    if run["side"] == "torch":
        step, known, final = torch_step(config, rows, run["dtype"])
    elif unroll is None:
        step, known, final = our_step(config, rows, run["dtype"])
    else:
        step, known, final = bare_step(config, rows, unroll=unroll)
    started = time.perf_counter()
    step()
    first = known.get("compile_seconds", 0.0) + time.perf_counter() - started
    print(json.dumps({**known, "first_call_seconds": first}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(timed(step)), flush=True)
    print(json.dumps(final()))


def timed(step: Callable[[], float]) -> dict[str, float]:
    """Seconds and loss of a step."""
    started = time.perf_counter()
    loss = step()
    return {"seconds": time.perf_counter() - started, "loss": loss}


Worker = tuple[Callable[[], float], dict[str, Any], Callable[[], dict[str, Any]]]
"""Takes a step; what is known before; what is known at the end."""


def our_step(config: Any, rows: np.ndarray, dtype: str) -> Worker:
    """The step that ``jax-lm train`` takes."""
    import jax

    from jax_lm.models.registry import count_parameters
    from jax_lm.optimizers.build import make_optimizer
    from jax_lm.optimizers.config import OptimizerConfig
    from jax_lm.training.config import DataConfig, TrainConfig
    from jax_lm.training.measuring.throughput import flops_per_token, peak_flops
    from jax_lm.training.state import init_state
    from jax_lm.training.step import make_train_step
    from jax_lm.types import Batch

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    optimizer = make_optimizer(OptimizerConfig(), 1000)
    train = TrainConfig(model=config, dtype=dtype, data=DataConfig())
    take = make_train_step(optimizer, jax.random.key(1), train)
    states = [jax.jit(partial(init_state, config=train, optimizer=optimizer))(jax.random.key(0))]
    ones = np.ones(rows[:, 1:].shape, np.float32)
    batch = jax.device_put(Batch(rows[:, :-1].astype(np.int32), rows[:, 1:].astype(np.int32), ones))

    def step() -> float:
        state, metrics = take(states.pop(), batch)
        states.append(state)
        return float(jax.block_until_ready((state, metrics.loss))[1])

    device = jax.devices()[0]
    known = {
        "device": device.device_kind,
        "parameters": count_parameters(config),
        "token_flops": flops_per_token(config, config.context_length),
        "peak_flops": peak_flops(device.device_kind, None),
    }
    return step, known, lambda: {"peak_bytes": _peak(device)}


def _peak(device: Any) -> int | None:
    """Most bytes of a device ever in use; None where it does not say."""
    memory = device.memory_stats()
    return None if memory is None else int(memory["peak_bytes_in_use"])


def bare_step(config: Any, rows: np.ndarray, *, unroll: bool) -> Worker:
    """The same work with a choice that training does not offer, and compiling timed alone."""
    import jax
    import jax.numpy as jnp
    import optax

    from jax_lm.losses import mean_loss, token_shares
    from jax_lm.models.registry import init_model

    inputs, targets = (jnp.asarray(side, jnp.int32) for side in (rows[:, :-1], rows[:, 1:]))
    shares = token_shares(jnp.ones(targets.shape))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))

    def loss(model: Any) -> Any:
        return mean_loss(model(inputs, unroll=unroll), model.unembedding, targets, shares)[0]

    @partial(jax.jit, donate_argnums=(0, 1))
    def take(model: Any, state: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(model)
        updates, state = optimizer.update(gradient, state, model)
        return optax.apply_updates(model, updates), state, value

    model = jax.jit(partial(init_model, config=config))(jax.random.key(0))
    states = [(model, jax.jit(optimizer.init)(model))]
    started = time.perf_counter()
    compiled = take.lower(*states[0]).compile()
    known = {"compile_seconds": time.perf_counter() - started}

    def step() -> float:
        model, state, value = jax.block_until_ready(compiled(*states.pop()))
        states.append((model, state))
        return float(value)

    return step, known, dict


def torch_step(config: Any, rows: np.ndarray, dtype: str) -> Worker:
    """The usual loop: eager on a CPU, compiled on a GPU; autocast for bfloat16."""
    import torch
    from torch_models import make

    from jax_lm.training.measuring.throughput import flops_per_token, peak_flops

    gpu = torch.cuda.is_available()
    kind = "cuda" if gpu else "cpu"
    model: Any = make(config).to(kind)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=6e-4, weight_decay=0.1, fused=gpu or None)
    if gpu:
        torch.set_float32_matmul_precision("high")
        model = torch.compile(model)
    tokens = torch.from_numpy(rows).to(kind)
    autocast = torch.autocast(kind, torch.bfloat16, enabled=dtype == "bfloat16")

    def step() -> float:
        with autocast:
            logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), tokens[:, 1:].flatten()
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def final() -> dict[str, Any]:
        return {"peak_bytes": torch.cuda.max_memory_allocated() if gpu else None}

    device = torch.cuda.get_device_name() if gpu else "cpu"
    known = {
        "device": device,
        "torch": torch.__version__,
        "parameters": sum(parameter.numel() for parameter in parameters),
        "token_flops": flops_per_token(config, config.context_length),
        "peak_flops": peak_flops(device, None),
    }
    return step, known, final


if __name__ == "__main__":
    main()
