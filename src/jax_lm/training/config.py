"""The configuration of a run: data beside what it configures, resolved before anything starts."""

import math
from dataclasses import dataclass, field
from typing import Literal

from jax_lm.errors import UsageError, check_values
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.layers.stack import RematPolicy
from jax_lm.models.low_rank import LoraConfig
from jax_lm.models.registry import FamilyConfig
from jax_lm.objectives.causal_lm import CausalLMConfig
from jax_lm.objectives.registry import ObjectiveConfig
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.preprocessing.cutting.modes import Mode
from jax_lm.sharding.mesh import MeshConfig


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where training and held-out rows come from."""

    train: tuple[str, ...] = ()
    """Feature PREFIX, or a SPEC that is preprocessed into a cache first; several are mixed, as in
    A=0.7 B=0.3 (without weights: each row as likely as any other)."""
    validation: tuple[str, ...] = ()
    """Held-out PREFIX or SPEC, or several as NAME=PREFIX."""
    tokenizer: str | None = None
    """Tokenizer directory; needed for a SPEC, checked against a PREFIX."""
    max_documents: int | None = None
    """Read at most this many documents of a training SPEC."""
    sequence_length: int | None = None
    """Tokens of a row that the model reads; None: as many as its context holds."""
    mode: Mode | None = None
    """How a SPEC is cut into rows; None: pairs where the objective reads them, else packed."""
    target_length: int | None = None
    """Longest output of a pair, in tokens, for objectives that read pairs; None: the row's."""


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Held-out evaluation during training."""

    every: int = 1000
    """Steps between evaluations (also before the first step and after the last); 0: only those."""
    batch_size: int | None = None
    """Rows scored at once; None is the training batch. The numbers do not depend on it."""
    max_rows: int | None = None
    """Rows of each held-out set that are scored; None is all of them."""
    at_start: bool = True
    """Evaluate before the first step too."""
    sample_prompt: str | tuple[str, ...] = ""
    """Text that the sample after each evaluation continues, or several such texts; empty starts a
    new document."""
    sample_tokens: int = 64
    """Length of a sample in tokens; 0 writes none."""

    def __post_init__(self) -> None:
        """Refuse counts that are none."""
        size, rows = self.batch_size, self.max_rows
        check_values(
            {
                "--evaluation.every": (self.every, self.every >= 0, "0 or more"),
                "--evaluation.batch-size": (size, size is None or size > 0, "1 or more"),
                "--evaluation.max-rows": (rows, rows is None or rows > 0, "1 or more"),
                "--evaluation.sample-tokens": (
                    self.sample_tokens,
                    self.sample_tokens >= 0,
                    "0 or more",
                ),
            }
        )

    @property
    def prompts(self) -> tuple[str, ...]:
        """Texts that samples continue."""
        given = self.sample_prompt
        return (given,) if isinstance(given, str) else given


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When the run is saved."""

    every: int = 1000
    """Steps between checkpoints (one is always written after the last step)."""
    keep: int = 2
    """Newest checkpoints kept."""
    keep_every: int | None = None
    """Checkpoints of every so many steps are kept for good."""
    best: str | None = None
    """Metric by which the best checkpoint is kept too, such as val/loss; accuracies count upwards,
    all else downwards. It is saved at evaluations, and is what RUN then stands for."""

    def __post_init__(self) -> None:
        """Refuse to keep nothing."""
        often = self.keep_every
        check_values(
            {
                "--checkpoint.every": (self.every, self.every > 0, "1 or more"),
                "--checkpoint.keep": (self.keep, self.keep > 0, "1 or more"),
                "--checkpoint.keep-every": (often, often is None or often > 0, "1 or more"),
            }
        )


@dataclass(frozen=True, kw_only=True)
class TrackingConfig:
    """Where the numbers go besides metrics.jsonl."""

    every: int = 10
    """Steps between logged training metrics."""
    tensorboard: bool = True
    """Write TensorBoard events to RUN/tensorboard."""
    wandb_project: str | None = None
    """Log to this Weights & Biases project; None: not at all."""
    wandb_entity: str | None = None
    """User or team that owns the project; None: the account's default."""
    wandb_mode: Literal["online", "offline"] = "online"
    """offline writes to RUN/wandb, for `wandb sync` later."""
    histograms: int = 0
    """Steps between histograms of gradients; 0: none. Each costs another gradient."""

    def __post_init__(self) -> None:
        """Refuse counts that are none, and a way to log to a project without one."""
        check_values(
            {
                "--tracking.every": (self.every, self.every > 0, "1 or more"),
                "--tracking.histograms": (self.histograms, self.histograms >= 0, "0 or more"),
            }
        )
        if self.wandb_project is None and (self.wandb_entity or self.wandb_mode != "online"):
            flag = "entity" if self.wandb_entity else "mode"
            raise UsageError(
                f"--tracking.wandb-{flag} logs nothing without --tracking.wandb-project: give "
                f"that, or leave --tracking.wandb-{flag} out"
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A whole training run."""

    model: FamilyConfig = field(default_factory=GPT2Config)
    objective: ObjectiveConfig = field(default_factory=CausalLMConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    init_from: str | None = None
    """MODEL whose weights training starts from, at step 0; its shape and tokenizer come with it."""
    run_dir: str = "runs/train"
    """Directory of the run: checkpoints, metrics, samples, final model; may be gs://bucket/run."""
    resume: Literal["never", "auto"] = "never"
    """``auto`` goes on from the newest checkpoint that verifies, or starts where there is none."""
    allow_change: tuple[str, ...] = ()
    """Keys of the configuration, such as data or model.dropout, that may differ on resume."""
    steps: int | None = None
    """Length in optimizer steps (give exactly one of steps, epochs, tokens)."""
    epochs: float | None = None
    """Length in passes over the training rows."""
    tokens: float | None = None
    """Length in tokens, counting whole rows (1e9 is a billion)."""
    max_time: float | None = None
    """Stop after this many minutes of this process's training, saved and exported."""
    batch_size: int | None = None
    """Rows a step over all devices (give exactly one of batch_size, batch_size_per_device)."""
    batch_size_per_device: int | None = None
    """Rows a step on each device, or on each group of devices that share rows."""
    accumulation_steps: int = 1
    """Parts that a batch is computed in, one after the other: less memory, the same gradient."""
    seed: int = 0
    """Of initial weights, data order and dropout."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the computation; parameters, norms, softmax and loss are float32. float16 scales the loss,
    by as much as gradients bear."""
    remat: RematPolicy = "none"
    """Activations that the backward pass recomputes instead of keeping: none; attention (its
    scores); dots (all but the products with weights); full (all of a block)."""
    loss_reduction: Literal["token", "sample"] = "token"
    """token: the mean over all targets of a batch; sample: over each row's own mean."""
    label_smoothing: float = 0.0
    """Share of each target's probability spread evenly over the vocabulary, in training."""
    z_loss: float = 0.0
    """Times the square of the logits' log-sum, added in training (1e-4 keeps it near 0)."""
    max_bad_steps: int = 10
    """Stop after this many steps in a row whose loss or gradient is not finite."""
    peak_tflops: float | None = None
    """Dense peak of one device in TFLOP/s, for model FLOPs utilization where it is not known."""
    profile: int = 0
    """Steps to trace, after the first few, into RUN/profile; 0: none."""
    stall_minutes: float = 10.0
    """Report what every thread does when no step ends for so long; 0: never."""
    compilation_cache: str | None = "auto"
    """Directory that keeps compiled steps between runs; auto: the user's cache directory; None:
    nowhere."""

    def __post_init__(self) -> None:
        """Refuse rows that the model cannot read, and numbers that mean nothing."""
        checks = {
            "--label-smoothing": (
                self.label_smoothing,
                0 <= self.label_smoothing < 1,
                "0 to below 1",
            ),
            "--z-loss": (self.z_loss, 0 <= self.z_loss < math.inf, "0 or more"),
            "--seed": (self.seed, 0 <= self.seed < 2**32, "from 0 to 2^32 - 1"),
            "--accumulation-steps": (
                self.accumulation_steps,
                self.accumulation_steps > 0,
                "1 or more",
            ),
            "--data.sequence-length": (self.sequence_length, self.sequence_length > 0, "1 or more"),
            "--data.target-length": (
                self.data.target_length,
                self.data.target_length is None or self.data.target_length > 0,
                "1 or more",
            ),
            "--max-time": (self.max_time, self.max_time is None or self.max_time > 0, "above 0"),
            "--max-bad-steps": (self.max_bad_steps, self.max_bad_steps > 0, "1 or more"),
            "--profile": (self.profile, self.profile >= 0, "0 or more"),
            "--stall-minutes": (self.stall_minutes, self.stall_minutes >= 0, "0 or more"),
        }
        check_values(checks)
        if self.sequence_length % self.mesh.sequence:
            raise UsageError(
                f"--mesh.sequence {self.mesh.sequence} does not divide rows of "
                f"{self.sequence_length} tokens: choose another number or --data.sequence-length"
            )
        if self.sequence_length > self.model.context_length:
            raise UsageError(
                f"--data.sequence-length {self.sequence_length} is more than the model's context "
                f"of {self.model.context_length} tokens"
            )

    @property
    def sequence_length(self) -> int:
        """Tokens of a row that the model reads."""
        given = self.data.sequence_length
        return self.model.context_length if given is None else given
