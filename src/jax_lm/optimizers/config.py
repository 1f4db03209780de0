"""What a run says about its optimizer."""

import math
from dataclasses import dataclass
from typing import Literal

from jax_lm.errors import UsageError

OptimizerName = Literal["adamw", "adafactor", "lion", "sgd", "muon"]
Schedule = Literal["cosine", "linear", "constant", "inverse-sqrt", "wsd"]
PUBLISHED: dict[OptimizerName, str] = {
    "adamw": "AdamW",
    "adafactor": "Adafactor",
    "lion": "Lion",
    "sgd": "SGD",
    "muon": "Muon, with AdamW for what is no matrix",
}
"""What an optimizer is called where people read it."""


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """An optimizer with its schedule, weight decay, clipping, frozen parameters and averaging."""

    name: OptimizerName = "adamw"
    """adamw; adafactor (least memory); lion (one moment, signs only); sgd; muon (matrices by Muon,
    all else by AdamW)."""
    learning_rate: float = 6e-4
    """Peak learning rate."""
    min_learning_rate: float | None = None
    """Learning rate at the end of the schedule; None: a tenth of the peak, or 0 with inverse-sqrt,
    which never goes below it."""
    schedule: Schedule = "cosine"
    """After warmup: cosine or linear over the remaining steps; constant; inverse-sqrt of the step;
    wsd (constant, then linear over the last decay_steps)."""
    warmup_steps: int = 0
    """Steps of linear warmup: step i (from 0) uses learning_rate * (i + 1) / (warmup_steps + 1)."""
    decay_steps: int | None = None
    """Steps at the end over which wsd decays; None: a tenth of the run."""
    beta1: float = 0.9
    """Decay of the gradient's mean (adamw, lion, and muon's AdamW)."""
    beta2: float = 0.95
    """Decay of the gradient's square (adamw and muon's AdamW), or of Lion's mean."""
    epsilon: float = 1e-8
    """Added to the root of the squared gradient (adamw and muon's AdamW)."""
    momentum: float | None = None
    """Of sgd (None: 0.9; 0: none) and muon (None: 0.95)."""
    nesterov: bool | None = None
    """Nesterov's momentum for sgd (None: no) and muon (None: yes)."""
    weight_decay: float = 0.1
    """Decoupled weight decay, times the learning rate; biases and norm scales are never decayed."""
    decay_embeddings: bool = True
    """Decay token and position embeddings too."""
    clip_norm: float = 1.0
    """Largest global norm of the gradient; 0 does not clip."""
    freeze: tuple[str, ...] = ()
    """Parameters that stay as they are, by patterns of their path, as in *_embedding, blocks.3.* or
    encoder.blocks.0-5.*."""
    moment_dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the gradient's mean or momentum: bfloat16 halves its memory. Squares are float32, and
    Adafactor has no mean."""
    ema_decay: float = 0.0
    """Of an average of the weights, which is then evaluated and exported; 0: no average."""

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing, and options of another optimizer or schedule."""
        self._check_ranges()
        self._check_applies()

    def _check_ranges(self) -> None:
        below_one, at_least_zero = "a number from 0 to below 1", "0 or more"
        low = 0.0 if self.min_learning_rate is None else self.min_learning_rate
        checks = {
            "learning-rate": (_finite(self.learning_rate, above=0), "a number above 0"),
            "min-learning-rate": (
                0 <= low <= self.learning_rate,
                f"from 0 to the peak, which is {self.learning_rate:g}",
            ),
            "warmup-steps": (self.warmup_steps >= 0, at_least_zero),
            "decay-steps": (self.decay_steps is None or self.decay_steps > 0, "1 or more"),
            "beta1": (0 <= self.beta1 < 1, below_one),
            "beta2": (0 <= self.beta2 < 1, below_one),
            "epsilon": (_finite(self.epsilon, above=0), "a number above 0"),
            "momentum": (self.momentum is None or 0 <= self.momentum < 1, below_one),
            "weight-decay": (0 <= self.weight_decay < math.inf, at_least_zero),
            "clip-norm": (0 <= self.clip_norm < math.inf, at_least_zero),
            "ema-decay": (0 <= self.ema_decay < 1, below_one),
        }
        for flag, (valid, expected) in checks.items():
            if not valid:
                value = getattr(self, flag.replace("-", "_"))
                raise UsageError(f"--optimizer.{flag} is {value}, expected {expected}")

    def _check_applies(self) -> None:
        """Refuse what was asked for and would do nothing.

        The betas and epsilon are let pass, so that a recipe made for AdamW runs with another name.
        """
        has_momentum = self.name in ("sgd", "muon")
        checks = {
            "decay-steps": (self.decay_steps is None or self.schedule == "wsd", "schedule wsd"),
            "momentum": (self.momentum is None or has_momentum, "name sgd or muon"),
            "nesterov": (self.nesterov is None or has_momentum, "name sgd or muon"),
            "moment-dtype": (
                self.moment_dtype == "float32" or self.name != "adafactor",
                "name adamw, lion, sgd or muon, for adafactor keeps no mean",
            ),
        }
        for flag, (applies, owner) in checks.items():
            if not applies:
                raise UsageError(
                    f"--optimizer.{flag} belongs to --optimizer.{owner}: leave it out, or change "
                    "the other"
                )

    @property
    def final_learning_rate(self) -> float:
        """Where the schedule ends."""
        if self.min_learning_rate is not None:
            return self.min_learning_rate
        return 0.0 if self.schedule == "inverse-sqrt" else 0.1 * self.learning_rate


def described(config: OptimizerConfig) -> str:
    """One line of a model card."""
    decays = config.schedule != "constant"
    facts = [
        PUBLISHED[config.name],
        f"peak learning rate {config.learning_rate:g}",
        config.schedule + (f" to {config.final_learning_rate:g}" if decays else ""),
        f"{config.warmup_steps:,} steps of warmup" if config.warmup_steps else "no warmup",
        f"weight decay {config.weight_decay:g}",
    ]
    if config.clip_norm:
        facts.append(f"clipped at norm {config.clip_norm:g}")
    if config.freeze:
        facts.append(f"frozen: {' '.join(config.freeze)}")
    if config.ema_decay:
        facts.append(f"weights averaged with decay {config.ema_decay:g}")
    return ", ".join(facts)


def _finite(value: float, *, above: float) -> bool:
    return above < value < math.inf
