"""Four families on Norwegian web text, at the settings of the Flax examples of transformers.

Each was published for a TPU v3-8, which is 8 devices: a smaller machine takes the same batch in
parts, with ``--accumulation-steps``.
"""

from jax_lm.models.bart import BartConfig
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.roberta import RobertaConfig
from jax_lm.models.t5 import T5Config
from jax_lm.objectives.denoising import DenoisingConfig
from jax_lm.objectives.masked_lm import MaskedLMConfig
from jax_lm.objectives.span_corruption import SpanCorruptionConfig
from jax_lm.optimizers.config import OptimizerConfig
from jax_lm.training.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    TrackingConfig,
    TrainConfig,
)


def gpt2_norwegian() -> TrainConfig:
    """GPT-2 124M on Norwegian text: run_clm_flax.

    Size: 124.4 M parameters with a vocabulary of 50,257.
    Data: OSCAR's ``unshuffled_deduplicated_no``, 5 % held out; a byte-level BPE trained on it;
    packed rows of 512.
    Cost: 20 passes; its authors report less than 21 hours on a TPU v3-8.
    Reaches: 3.24 nats a token, held out (perplexity 25.72).
    Source: transformers, examples/flax/language-modeling (run_clm_flax.py).
    """
    return TrainConfig(
        model=GPT2Config(),
        data=DataConfig(sequence_length=512),
        optimizer=OptimizerConfig(
            learning_rate=5e-3,
            min_learning_rate=0.0,
            schedule="linear",
            warmup_steps=1000,
            beta1=0.9,
            beta2=0.98,
            weight_decay=0.01,
            clip_norm=0.0,
        ),
        evaluation=EvaluationConfig(every=2500, batch_size=512),
        checkpoint=CheckpointConfig(every=2500),
        tracking=TrackingConfig(every=100),
        run_dir="runs/gpt2-norwegian",
        epochs=20,
        batch_size=512,
        dtype="bfloat16",
    )


def roberta_norwegian() -> TrainConfig:
    """RoBERTa base on Norwegian text, masked language modelling: run_mlm_flax.

    Size: 124.7 M parameters with a vocabulary of 50,265.
    Data: OSCAR's ``unshuffled_deduplicated_no``, 5 % held out; a byte-level BPE trained on it, with
    the special tokens <s> <pad> </s> <unk> <mask>; rows of 128.
    Cost: 18 passes; its authors report 15 h 32 min on a TPU v3-8.
    Reaches: 1.78 nats a masked token, 64 % of them right.
    Source: transformers, examples/flax/language-modeling (run_mlm_flax.py).
    """
    return TrainConfig(
        model=RobertaConfig(dropout=0.1, attention_dropout=0.1),
        objective=MaskedLMConfig(),
        data=DataConfig(sequence_length=128),
        optimizer=OptimizerConfig(
            learning_rate=3e-4,
            min_learning_rate=0.0,
            schedule="linear",
            warmup_steps=1000,
            beta1=0.9,
            beta2=0.98,
            weight_decay=0.01,
            clip_norm=0.0,
        ),
        evaluation=EvaluationConfig(every=2500, batch_size=1024),
        checkpoint=CheckpointConfig(every=2500),
        tracking=TrackingConfig(every=100),
        run_dir="runs/roberta-norwegian",
        epochs=18,
        batch_size=1024,
        dtype="bfloat16",
    )


def t5_norwegian() -> TrainConfig:
    """T5 v1.1 base on Norwegian text, span corruption: run_t5_mlm_flax.

    Size: 247.5 M parameters with a vocabulary of 32,100.
    Data: OSCAR's ``unshuffled_deduplicated_no``, 5 % held out; a Unigram tokenizer of 32,000 pieces
    and T5's 100 sentinels; inputs of 512, made from rows of 568.
    Cost: 3 passes; its authors report about 4.5 hours on a TPU v3-8.
    Reaches: 2.36 nats a target, 57 % of them right.
    Source: transformers, examples/flax/language-modeling (run_t5_mlm_flax.py). Its Adafactor leaves
    the weight decay of its command line out, and so does this.
    """
    return TrainConfig(
        model=T5Config(
            mlp_dim=2048,
            activation="gelu_tanh",
            gated=True,
            tied=False,
            scale_output=False,
            dropout=0.1,
        ),
        objective=SpanCorruptionConfig(),
        optimizer=OptimizerConfig(
            name="adafactor",
            learning_rate=5e-3,
            min_learning_rate=0.0,
            schedule="linear",
            warmup_steps=2000,
            weight_decay=0.0,
            clip_norm=0.0,
        ),
        evaluation=EvaluationConfig(every=2500, batch_size=256),
        checkpoint=CheckpointConfig(every=2500),
        tracking=TrackingConfig(every=100),
        run_dir="runs/t5-norwegian",
        epochs=3,
        batch_size=256,
        dtype="bfloat16",
    )


def bart_norwegian() -> TrainConfig:
    """BART base on Norwegian text, denoising: run_bart_dlm_flax.

    Size: 139.5 M parameters with a vocabulary of 50,265.
    Data: OSCAR's ``unshuffled_deduplicated_no``, 5 % held out; a byte-level BPE trained on it, with
    the special tokens <s> <pad> </s> <unk> <mask>; rows of 1024 that know their sentences.
    Cost: 3 passes; its authors report less than 6 hours on a TPU v3-8.
    Reaches: 1.36 nats a target, 77 % of them right.
    Source: transformers, examples/flax/language-modeling (run_bart_dlm_flax.py).
    """
    return TrainConfig(
        model=BartConfig(dropout=0.1, attention_dropout=0.1, activation_dropout=0.1),
        objective=DenoisingConfig(),
        optimizer=OptimizerConfig(
            learning_rate=1e-4,
            min_learning_rate=0.0,
            schedule="linear",
            warmup_steps=2000,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            clip_norm=0.0,
        ),
        evaluation=EvaluationConfig(every=2500, batch_size=256),
        checkpoint=CheckpointConfig(every=2500),
        tracking=TrackingConfig(every=100),
        run_dir="runs/bart-norwegian",
        epochs=3,
        batch_size=256,
        dtype="bfloat16",
    )
