"""Published decoders fine-tuned on pairs of input and output, at the settings of JAXSeq."""

from jax_lm.models.gptj import GPTJConfig
from jax_lm.models.llama import LlamaConfig
from jax_lm.models.low_rank import LoraConfig
from jax_lm.objectives.seq2seq import Seq2SeqConfig
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.sharding.mesh import MeshConfig
from jax_lm.training.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    TrainConfig,
)


def gptj_6b_finetune() -> TrainConfig:
    """GPT-J 6B fine-tuned on pairs of input and output, all weights, over 8 devices.

    Size: 6.051 B parameters with the vocabulary of 50,400 that its files have.
    Data: JSON lines with ``in_text`` and ``out_text``, cut at 512 tokens each; --init-from takes
    a directory in the place of the published weights, whose .bin needs the torch extra.
    Cost: one pass over the pairs on 8 devices of 24 GB or more. Weights, gradients and moments are
    16 bytes a parameter: 97 GB, 12 GB on each, and ``--dry-run`` says 14 GB with activations;
    ``--mesh.fsdp 2`` for two devices of 80 GB. mesh-transformer-jax, which made the model, reports
    about 5,000 tokens/s on a TPU v3-8.
    Reaches: no figure is published. The first evaluation scores the weights before training.
    Source: github.com/Sea-Snell/JAXSeq, gptj_train.py (its defaults).
    """
    return TrainConfig(
        init_from="EleutherAI/gpt-j-6b",
        model=GPTJConfig(
            vocab_size=50_400, context_length=2048, num_layers=28, num_heads=16, embed_dim=4096
        ),
        objective=Seq2SeqConfig(),
        data=DataConfig(sequence_length=1024, target_length=512),
        optimizer=OptimizerConfig(
            learning_rate=1e-5,
            schedule="constant",
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-6,
            weight_decay=0.0,
            clip_norm=0.0,
        ),
        evaluation=EvaluationConfig(every=256, batch_size=32, max_rows=1024),
        checkpoint=CheckpointConfig(every=256, best="val/loss"),
        mesh=MeshConfig(fsdp=8),
        run_dir="runs/gptj-6b-finetune",
        epochs=1,
        batch_size=16,
        dtype="bfloat16",
        remat="full",
    )


def llama_7b_finetune() -> TrainConfig:
    """LLaMA 7B fine-tuned on pairs of input and output, low-rank factors alone, on one device.

    Size: 6.738 B parameters with its vocabulary of 32,000, all but the factors frozen.
    Data: JSON lines with ``in_text`` and ``out_text``, cut at 512 tokens each; --init-from takes
    any LLaMA 7B in the place of huggyllama/llama-7b, a directory or its publisher's files.
    Cost: one pass over the pairs on one device of 80 GB. The weights are 27 GB, their copy in
    bfloat16 13.5 GB, factors with gradients and moments less than 1 GB; ``--dry-run`` says about 42
    GB with activations. To train all weights takes 16 bytes of each, 108 GB: ``--lora.rank 0
    --mesh.fsdp 8 --optimizer.learning-rate 1e-5``.
    Reaches: no figure is published. The first evaluation scores the weights before training.
    Source: github.com/Sea-Snell/JAXSeq, llama_train.py (its defaults), with factors as in Hu et
    al. 2021 (arXiv:2106.09685) and the larger learning rate that they want.
    """
    return TrainConfig(
        init_from="huggyllama/llama-7b",
        model=LlamaConfig(vocab_size=32_000),
        objective=Seq2SeqConfig(),
        data=DataConfig(sequence_length=1024, target_length=512),
        lora=LoraConfig(rank=16, alpha=32.0),
        optimizer=OptimizerConfig(
            learning_rate=2e-4,
            schedule="constant",
            warmup_steps=100,
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-6,
            weight_decay=0.0,
            clip_norm=1.0,
        ),
        evaluation=EvaluationConfig(every=256, batch_size=8, max_rows=1024),
        checkpoint=CheckpointConfig(every=256, best="val/loss"),
        run_dir="runs/llama-7b-finetune",
        epochs=1,
        batch_size=16,
        accumulation_steps=4,
        dtype="bfloat16",
        remat="full",
    )
