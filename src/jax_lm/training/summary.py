"""What a run is about to do, told before it starts."""

from collections.abc import Iterator

import jax
from jax.sharding import Mesh

from jax_lm.checkpoints.layout import Progress
from jax_lm.models.base import ModelConfig
from jax_lm.models.forward import Model
from jax_lm.models.registry import count_parameters
from jax_lm.objectives.registry import described
from jax_lm.training.config import TrainConfig
from jax_lm.training.data import TrainingData
from jax_lm.training.gradient import trainable_parts
from jax_lm.training.measuring.device_memory import counts_memory
from jax_lm.training.measuring.throughput import flops_per_token, peak_flops
from jax_lm.training.plan import Plan


def summarise(
    config: TrainConfig, plan: Plan, data: TrainingData, mesh: Mesh, progress: Progress
) -> Iterator[str]:
    """The resolved numbers of a run, a line each."""
    model = config.model
    yield described_model(model)
    beyond = (model.vocab_size or 0) - data.tokenizer.vocab_size
    if beyond:
        yield (
            f"note      the model has {beyond:,} ids that the tokenizer lacks: --model.vocab-size "
            "None leaves them out"
        )
    yield f"learns    {described(config.objective)}"
    yield (
        f"data      {len(data.train):,} rows of {plan.sequence_length} tokens "
        f"({data.num_bytes / 1e6:,.1f} MB of text) from {data.source}"
    )
    if data.shares:
        yield f"mixed     {', '.join(f'{share:.1%} {name}' for name, share in data.shares.items())}"
    for name, rows in data.validation.items():
        yield f"held out  {name}: {_evaluated(config, len(rows))} rows"
    yield (
        f"length    {plan.steps:,} steps of {plan.batch_size} rows "
        f"({plan.tokens_per_step:,} tokens): {plan.steps * plan.tokens_per_step / 1e6:,.2f} M "
        f"tokens, {plan.epochs:.2f} epochs"
        + (f", at most {config.max_time:g} minutes" if config.max_time else "")
    )
    if config.optimizer.warmup_steps >= plan.steps:
        yield (
            f"note      warmup takes {config.optimizer.warmup_steps:,} steps, the whole run: the "
            "learning rate never reaches its peak; lower --optimizer.warmup-steps"
        )
    if plan.batch_size > plan.rows:
        yield f"note      a batch of {plan.batch_size:,} rows repeats rows: there are {plan.rows:,}"
    if config.evaluation.sample_tokens and model.kind != "decoder":
        yield "samples   none: only decoder-only models continue a text"
    device = mesh.devices.flat[0]
    peak = peak_flops(device.device_kind, config.peak_tflops)
    known = "unknown" if peak is None else f"{peak / 1e12:g} TFLOP/s"
    flops = flops_per_token(model, plan.sequence_length, data.target_length)
    yield (
        f"compute   {mesh.size} x {device.device_kind}, {config.dtype}; "
        f"{flops / 1e6:,.1f} MFLOPs a token, peak for MFU {known}"
        + ("" if counts_memory() else "; memory is counted by the process, not by the device")
    )
    yield f"run       {config.run_dir}" + (
        f", continuing after step {progress.step:,}" if progress.step else ""
    )
    if progress.step >= plan.steps:
        yield "note      all steps are taken: what is left is to export the model again"


def described_model(model: ModelConfig) -> str:
    """A model's shape in a line; its vocabulary must be known."""
    name = getattr(model, "variant", model.family)
    return (
        f"model     {name}: {count_parameters(model):,} parameters, {model.num_layers} layers, "
        f"{model.num_heads} heads, {model.embed_dim} wide, context {model.context_length}, "
        f"vocabulary {model.vocab_size:,}"
    )


def described_weights(config: TrainConfig, model: Model) -> str:
    """How many parameters there are, look ids up, and are trained, in a line.

    Args:
        config: of the run.
        model: arrays or ``jax.ShapeDtypeStruct``, with low-rank factors where the run has such.
    """
    vocabulary = config.model.vocab_size
    tables = sum(
        leaf.shape[-1] * min(leaf.shape[0], vocabulary or leaf.shape[0])
        for path, leaf in jax.tree_util.tree_leaves_with_path(model)
        if jax.tree_util.keystr(path).endswith("_embedding")
    )
    trained, frozen = trainable_parts(model, config)
    count = sum(leaf.size for leaf in jax.tree.leaves(trained))
    of_all = f"{count:,} are trained" if jax.tree.leaves(frozen) else "all are trained"
    return (
        f"weights   {count_parameters(config.model):,} parameters, {tables:,} of them embeddings; "
        + of_all
    )


def _evaluated(config: TrainConfig, rows: int) -> str:
    used = min(rows, config.evaluation.max_rows or rows)
    return f"{rows:,}" if used == rows else f"{used:,} of {rows:,}"
