"""LLaMA from random weights, over 8 GPUs and over a TPU pod.

Weights, gradients and Adam's two moments are 16 bytes a parameter in float32, split over the
``fsdp`` axis; activations come on top. The pod's recipes read the same rows in the same steps as
those for 8 GPUs where they are as long, so that their losses can be laid over each other.
"""

from dataclasses import replace

from jax_lm.models.llama import LlamaConfig
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.sharding.mesh import MeshConfig
from jax_lm.training.config import (
    CheckpointConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


def llama_1b_8_gpus() -> TrainConfig:
    """LLaMA 1B at 20 tokens a parameter, on one machine with 8 GPUs.

    Size: 1.139 B parameters with a vocabulary of 32,000.
    Data: web text of your own, packed into rows of 2048.
    Cost: 22.8 G tokens, 17 hours at what llm-foundry reports for its 1B on 8 H100. That is 45,455
    tokens/s a GPU. State 18 GB, 2.3 GB a GPU; with the activations of 8 rows at a time,
    ``--dry-run`` says about 19 GB.
    Reaches: no figure is published. The shape is no one model's, and the text is yours.
    Source: 20 tokens a parameter are Hoffmann et al.'s (2022, arXiv:2203.15556), the optimizer that
    of LLaMA (Touvron et al. 2023, arXiv:2302.13971).
    """
    return TrainConfig(
        model=LlamaConfig(num_layers=16, num_heads=16, embed_dim=2048, mlp_dim=8192, tied=True),
        optimizer=OptimizerConfig(
            learning_rate=3e-4,
            min_learning_rate=3e-5,
            warmup_steps=2000,
            beta1=0.9,
            beta2=0.95,
            weight_decay=0.1,
            clip_norm=1.0,
        ),
        evaluation=EvaluationConfig(every=1000, batch_size=64, max_rows=2048),
        checkpoint=CheckpointConfig(every=500, keep_every=5000),
        tracking=TrackingConfig(every=10),
        mesh=MeshConfig(fsdp=8),
        run_dir="runs/llama-1b-8-gpus",
        tokens=22.8e9,
        batch_size=512,
        accumulation_steps=8,
        dtype="bfloat16",
        remat="dots",
    )


def llama_1b_tpu_pod() -> TrainConfig:
    """LLaMA 1B at 20 tokens a parameter, on a slice of a TPU pod: the steps of llama-1b-8-gpus.

    Size: 1.139 B parameters with a vocabulary of 32,000.
    Data: as for llama-1b-8-gpus, in a bucket that every host reads; start it on every host.
    Cost: 22.8 G tokens, 7.5 hours on 64 v4 chips at what Levanter's users report for a 1B. That is
    53,000 tokens/s on 4 chips. Groups of 8 chips split the state, 2.3 GB a chip; 64 chips get 8
    rows each, for which ``--dry-run`` says about 6 GB; 16 chips take ``--accumulation-steps 4``.
    Reaches: no figure is published. On the same rows, the losses are those of llama-1b-8-gpus.
    Source: as for llama-1b-8-gpus.
    """
    return replace(
        llama_1b_8_gpus(),
        mesh=MeshConfig(fsdp=8),
        run_dir="runs/llama-1b-tpu-pod",
        accumulation_steps=1,
        remat="full",
    )


def llama_7b_8_gpus() -> TrainConfig:
    """LLaMA 7B at 20 tokens a parameter, on one machine with 8 GPUs of 80 GB.

    Size: 6.738 B parameters with a vocabulary of 32,000.
    Data: web text of your own, packed into rows of 2048.
    Cost: 135 G tokens, 18 days at what llm-foundry reports for its 7B on 8 H100. That is 10,643
    tokens/s a GPU. State 108 GB, 13.5 GB a GPU; with the activations of 4 rows at a time,
    ``--dry-run`` says about 41 GB.
    Reaches: no figure is published at this length. LLaMA's own curves are for 1 T tokens.
    Source: Touvron et al. 2023 (arXiv:2302.13971) but for the length, which is Hoffmann et al.'s
    (2022, arXiv:2203.15556).
    """
    return TrainConfig(
        model=LlamaConfig(),
        optimizer=OptimizerConfig(
            learning_rate=3e-4,
            min_learning_rate=3e-5,
            warmup_steps=2000,
            beta1=0.9,
            beta2=0.95,
            weight_decay=0.1,
            clip_norm=1.0,
        ),
        evaluation=EvaluationConfig(every=1000, batch_size=32, max_rows=2048),
        checkpoint=CheckpointConfig(every=250, keep_every=5000),
        tracking=TrackingConfig(every=10),
        mesh=MeshConfig(fsdp=8),
        run_dir="runs/llama-7b-8-gpus",
        tokens=135e9,
        batch_size=2048,
        accumulation_steps=64,
        dtype="bfloat16",
        remat="dots",
    )


def llama_7b_tpu_pod() -> TrainConfig:
    """LLaMA 7B on 1 T tokens as published, on a slice of a TPU pod of 64 chips or more.

    Size: 6.738 B parameters with a vocabulary of 32,000.
    Data: 1 T tokens of web text, packed into rows of 2048, in a bucket that every host reads; start
    it on every host.
    Cost: 1 T tokens, 24 days on 256 v4 chips at what OpenLLaMA reports for its 7B. That is 1,900
    tokens/s a chip. Groups of 16 chips split the state, 6.7 GB a chip; 64 chips get 32 rows a step,
    8 at a time, for which ``--dry-run`` says about 17 GB. More than 512 chips take
    ``--accumulation-steps 1``, more than 2,048 ``--mesh.tensor 4`` as well.
    Reaches: no loss is published in figures. LLaMA 7B's scores on tasks are in its paper.
    Source: Touvron et al. 2023 (arXiv:2302.13971).
    """
    return replace(
        llama_7b_8_gpus(),
        mesh=MeshConfig(fsdp=16),
        run_dir="runs/llama-7b-tpu-pod",
        tokens=1e12,
        accumulation_steps=4,
        remat="full",
    )
