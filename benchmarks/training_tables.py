"""The tables of training: a step, what is recomputed of it, and the loop around it."""

import statistics
from collections.abc import Iterator
from typing import Any

from recording import machine


def step_time(result: dict[str, Any]) -> Iterator[str]:
    """A training step on a CPU beside eager PyTorch, and the first call of a larger model."""
    small, first = result["small"], result["first_call"]
    yield "## Training steps on a CPU"
    yield ""
    yield (
        f"Forward, backward, clipping and AdamW of a GPT-2 of {small['num_layers']} layers, width "
        f"{small['embed_dim']}, vocabulary {small['vocab_size']:,}, {small['batch']} x "
        f"{small['context_length']} tokens; PyTorch {result['steps'][1]['torch']} eager, its fused "
        "attention. Medians of steps taken by turns; the least in brackets. Bar: 0.9 times "
        "PyTorch's tokens a second in float32."
    )
    yield ""
    yield "| | ours (s) | PyTorch (s) | our tokens/s are |"
    yield "|---|---|---|---|"
    for ours, theirs in zip(result["steps"][::2], result["steps"][1::2], strict=True):
        cells = [f"{run['seconds']:.2f} ({run['least_seconds']:.2f})" for run in (ours, theirs)]
        ratios = [f"{theirs[key] / ours[key]:.2f}x" for key in ("seconds", "least_seconds")]
        yield f"| {ours['dtype']} | {cells[0]} | {cells[1]} | {ratios[0]} ({ratios[1]}) |"
    yield ""
    scanned, unrolled = first["scanned"], first["unrolled"]
    ratio = scanned["compile_seconds"] / unrolled["compile_seconds"]
    length = result["first_call_model"]["context_length"]
    yield (
        f"GPT-2 124M, 1 x {length} tokens, float32, medians over fresh processes, layers scanned "
        f"and unrolled: tracing and compiling {scanned['compile_seconds']:.1f} and "
        f"{unrolled['compile_seconds']:.1f} s ({ratio:.2f}x; bar 0.5x), all of the first call "
        f"{scanned['first_call_seconds']:.1f} and {unrolled['first_call_seconds']:.1f} s, a step "
        f"{scanned['seconds']:.2f} and {unrolled['seconds']:.2f} s."
    )
    yield ""
    yield machine(result["machine"])
    yield ""


def step_time_gpu(result: dict[str, Any]) -> Iterator[str]:
    """Training steps on a GPU beside torch.compile."""
    yield "## Training steps on a GPU"
    yield ""
    yield (
        "Forward, backward, clipping and AdamW in bfloat16, parameters in float32; MFU as "
        "`train/mfu` defines it, of the device's dense bfloat16 peak."
    )
    yield ""
    yield "| model | tokens | | tokens/s | MFU | peak memory (GB) |"
    yield "|---|---|---|---|---|---|"
    for run in result["steps"]:
        mfu = f"{run['mfu']:.1%} of {run['peak_flops'] / 1e12:.0f} TFLOP/s" if "mfu" in run else ""
        who = "ours" if run["side"] == "jax_lm" else f"torch.compile {run['torch']}"
        yield (
            f"| {run['preset']} | {run['batch']} x {run['context_length']:,} | {who} | "
            f"{run['tokens_per_second']:,.0f} | {mfu} | {run['peak_bytes'] / 1e9:.1f} |"
        )
    yield ""
    yield f"{result['steps'][0]['device']}. {machine(result['machine'])}"
    yield ""


def remat(result: dict[str, Any]) -> Iterator[str]:
    """Memory and time of the remat policies."""
    model, runs = result["model"], result["runs"]
    plain = runs[0]
    yield "## Recomputing activations"
    yield ""
    yield (
        f"Forward and backward pass of a GPT-2 of {model['num_layers']} layers, width "
        f"{model['embed_dim']}, dropout {model['dropout']}, {result['batch']} x "
        f"{model['context_length']} tokens, float32. Memory: what XLA plans for intermediate "
        "values, gradients included. Medians of passes taken by turns, and of ratios within a turn."
    )
    yield ""
    yield "| `--remat` | memory (MB) | of none | seconds | of none |"
    yield "|---|---|---|---|---|"
    for run in runs:
        size, seconds = run["temporary_bytes"], run["seconds"]
        yield (
            f"| {run['policy']} | {size / 1e6:,.0f} | {size / plain['temporary_bytes']:.2f}x | "
            f"{seconds:.2f} | {run['times_none']:.2f}x |"
        )
    yield ""
    yield machine(result["machine"])
    yield ""


def train_loop(result: dict[str, Any]) -> Iterator[str]:
    """What the loop adds to its step, and other loops on the same rows."""
    bare, shape, beside = result["over_the_bare_step"], result["shape"], result["beside"]
    yield "## The training loop"
    yield ""
    yield (
        f"`jax-lm train` with its loader, a line of metrics every {bare['logged']} steps to every "
        f"file tracker and a checkpoint every 100, a GPT-2 of {bare['num_layers']} layers, width "
        f"{bare['embed_dim']}, {bare['batch']} x {bare['context_length']} tokens, float32: "
        f"{bare['ratio']:.3f} of the time of its compiled step alone (median of {bare['chunks']} "
        f"pairs of 100 steps in one process, from {min(bare['ratios']):.3f} to "
        f"{max(bare['ratios']):.3f}; bar 1.03)."
    )
    yield ""
    yield (
        f"Beside others: {shape['num_layers']} layers, width {shape['embed_dim']}, "
        f"{shape['batch']} x {shape['context_length']} tokens, a checkpoint every "
        f"{shape['saved']} steps; processes by turns, medians of {len(beside['jax_lm'])} rounds. "
        "Speed: ours over theirs, in a round. Goals: 1.0 and 0.8."
    )
    yield ""
    yield "| loop | tokens/s | ours is | peak memory (MB) | ours takes |"
    yield "|---|---|---|---|---|"
    names = {"jax_lm": "jax-lm", "trainer": "HF Trainer", "nanogpt": "as nanoGPT's, not compiled"}
    for side, name in names.items():
        speed, memory = (
            statistics.median(run[key] for run in beside[side])
            for key in ("tokens_per_second", "peak_megabytes")
        )
        ratios = [
            statistics.median(
                ours[key] / theirs[key]
                for ours, theirs in zip(beside["jax_lm"], beside[side], strict=True)
            )
            for key in ("tokens_per_second", "peak_megabytes")
        ]
        yield (
            f"| {name} | {speed:,.0f} | {ratios[0]:.2f}x as fast | {memory:,.0f} | "
            f"{ratios[1]:.2f}x |"
        )
    yield ""
    yield machine(result["machine"])
    yield ""
