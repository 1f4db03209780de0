"""The table of the server's benchmark."""

from collections.abc import Iterator
from typing import Any

from recording import machine


def serve(result: dict[str, Any]) -> Iterator[str]:
    """Speed with many clients and with one, and what far too many do."""
    over = result["overload"]
    first, alone = result["first_token"], result["first_token_alone"]
    statuses = ", ".join(f"{count} x {status}" for status, count in over["statuses"].items())
    yield "## A server under load"
    yield ""
    yield (
        f"`benchmarks/serve.py`: GPT-2 of 6 layers, 384 wide, float32; texts of "
        f"{result['new_tokens']} tokens, streamed; server and clients share the machine. "
        f"{result['requests']:,} requests, {len(result['errors'])} errors."
    )
    yield ""
    yield "| clients | tokens/s | first token p50 | p95 |"
    yield "|---|---|---|---|"
    single = result["one_slot"]
    for name, speed, times in (
        ("1, server of one slot", single["tokens_per_second"], single["first_token"]),
        ("1", result["tokens_per_second_alone"], alone),
        (result["clients"], result["tokens_per_second"], first),
    ):
        middle, worst = times["p50"] * 1e3, times["p95"] * 1e3
        yield f"| {name} | {speed:,.0f} | {middle:.0f} ms | {worst:.0f} ms |"
    yield ""
    yield (
        f"{result['times_one_slot']:.1f} times the throughput of the server of one slot (bar: 5). "
        f"{over['requests']} requests at once: {statuses}; memory at most "
        f"{over['peak_megabytes']:,.0f} MB "
        f"({result['megabytes_after_a_minute']:,.0f} MB before); the next request's first token "
        f"after {over['first_token_afterwards'] * 1e3:.0f} ms."
    )
    yield ""
    yield machine(result["machine"])
    yield ""
