"""The table of generation's benchmark."""

from collections.abc import Iterator
from typing import Any

from recording import machine

NAMES = {"transformers": "transformers' generate", "static": "the same with its static cache"}


def generate(result: dict[str, Any]) -> Iterator[str]:
    """Speed and time to the first token, beside transformers."""
    runs = result["runs"]
    sides = [side for side in NAMES if side in runs[0]]
    dtype = runs[0]["jax_lm"]["dtype"]
    yield "## Generation beside transformers"
    yield ""
    yield (
        f"`benchmarks/generate.py`: GPT-2's 124M shape, {dtype}, greedy, prompts of "
        f"{result['prompt_tokens']} tokens, {result['new_tokens']} new ones each; medians of runs "
        "that take turns. Bar: 1.5 times transformers' generate on a CPU."
    )
    yield ""
    heads = " | ".join(f"{NAMES[side]} | ratio" for side in sides)
    yield f"| batch | jax-lm tokens/s | {heads} | first token: ours | transformers |"
    yield "|---|---|" + "---|---|" * len(sides) + "---|---|"
    for run in runs:
        ours, theirs = run["jax_lm"], run["transformers"]
        others = " | ".join(
            f"{run[side]['tokens_per_second']:,.0f} | "
            f"{ours['tokens_per_second'] / run[side]['tokens_per_second']:.2f}"
            for side in sides
        )
        yield (
            f"| {run['batch']} | {ours['tokens_per_second']:,.0f} | {others} | "
            f"{ours['first_token_seconds'] * 1e3:.0f} ms | "
            f"{theirs['first_token_seconds'] * 1e3:.0f} ms |"
        )
    yield ""
    yield machine(result["machine"])
    yield ""
