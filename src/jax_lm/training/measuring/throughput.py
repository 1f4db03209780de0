"""Tokens a second and model FLOPs utilization, with their definitions."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from jax_lm.models.base import ModelConfig
from jax_lm.models.registry import count_parameters

PEAK_TFLOPS: Mapping[str, float] = {
    "TPU v4": 275.0,
    "TPU v5 lite": 197.0,
    "TPU v5p": 459.0,
    "TPU v6 lite": 918.0,
    "NVIDIA A100": 312.0,
    "NVIDIA H100": 989.0,
    "NVIDIA H200": 989.0,
}
"""Dense bfloat16 TFLOP/s of one chip, from the datasheets, by the start of its device name."""


def flops_per_token(config: ModelConfig, length: int, target_length: int | None = None) -> float:
    """Model FLOPs of forward and backward for one token (PaLM, arXiv:2204.02311, appendix B).

    6 * (parameters without embeddings, with the output matrix) + 12 * layers * heads * head_dim *
    seq; causal attention is not halved. An encoder-decoder's are those of a row (each stack's
    parameters times its own tokens, and what the decoder attends to in either) over all its tokens.

    Args:
        config: of the model.
        length: input tokens of a row.
        target_length: output tokens of a row, of an encoder-decoder.
    """
    parameters = count_parameters(config, embeddings=False)
    if config.kind != "encoder-decoder":
        return 6.0 * parameters + 12 * sum(config.attention_widths) * length
    out = length if target_length is None else target_length
    encoder = count_parameters(config, embeddings=False, within=".encoder")
    reading, writing = config.attention_widths
    products = 6.0 * (encoder * length + (parameters - encoder) * out)
    attention = 12.0 * (reading * length**2 + writing * (out**2 + out * length))
    return (products + attention) / (length + out)


def peak_flops(device_kind: str, given_tflops: float | None) -> float | None:
    """Peak FLOP/s of one device: what was given, else the datasheet's, else None."""
    if given_tflops is not None:
        return given_tflops * 1e12
    for name, tflops in PEAK_TFLOPS.items():
        if device_kind.startswith(name):
            return tflops * 1e12
    return None


class Throughput:
    """Real (unpadded) tokens a second between two readings, and where the seconds went."""

    def __init__(
        self,
        flops_per_token: float,
        peak_flops: float | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Args: FLOPs of a token; peak FLOP/s of all devices, None where unknown; a clock."""
        self._flops_per_token, self._peak, self._clock = flops_per_token, peak_flops, clock
        self.start()

    def start(self) -> None:
        """Measure from now on."""
        self._tokens = self._steps = 0
        self._waited = 0.0
        self._since = self._clock()

    def count(self, tokens: int) -> None:
        """Tokens of one more step."""
        self._tokens += tokens
        self._steps += 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time inside is spent waiting for data."""
        began = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - began

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """Leave out the time spent inside, such as an evaluation's."""
        began = self._clock()
        try:
            yield
        finally:
            self._since += self._clock() - began

    def read(self) -> dict[str, float]:
        """Metrics since the last reading; ``train/mfu`` only where the peak is known.

        To be called when the device is done with the last step: the loop runs ahead of it.
        """
        if self._steps == 0:
            return {}
        seconds = max(self._clock() - self._since, 1e-9)
        rate = self._tokens / seconds
        metrics = {
            "train/tokens_per_second": rate,
            "train/step_seconds": seconds / self._steps,
            "train/data_seconds": self._waited / self._steps,
        }
        if self._peak is not None:
            metrics["train/mfu"] = rate * self._flops_per_token / self._peak
        self.start()
        return metrics
