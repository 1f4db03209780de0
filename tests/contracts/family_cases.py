"""A tiny configuration of every family, and of the variants that change how it computes."""

from jax_lm.models.bart import BartConfig
from jax_lm.models.base import ModelConfig
from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.gpt_neox import GPTNeoXConfig
from jax_lm.models.gptj import GPTJConfig
from jax_lm.models.layers.rotary import RotaryConfig
from jax_lm.models.llama import LlamaConfig
from jax_lm.models.opt import OPTConfig
from jax_lm.models.roberta import RobertaConfig
from jax_lm.models.t5 import T5Config

VOCABULARY = 40
SEQ = 9
SHAPE = {
    "vocab_size": VOCABULARY,
    "context_length": 12,
    "num_layers": 2,
    "num_heads": 2,
    "embed_dim": 16,
}

T5_SHAPE = {"head_dim": 6, "mlp_dim": 24, "num_buckets": 8, "max_distance": 6}
CONFIGS: dict[str, ModelConfig] = {
    "bart": BartConfig(**SHAPE, num_decoder_layers=1, scale_embedding=True, pad_id=1),
    "roberta": RobertaConfig(**SHAPE, pad_id=1),
    "gpt2": GPT2Config(**SHAPE),
    "gpt2 without biases": GPT2Config(**SHAPE, bias=False),
    "gptj": GPTJConfig(**SHAPE, rotary_dim=4),
    "gpt-neox": GPTNeoXConfig(**SHAPE),
    "gpt-neox, one after the other": GPTNeoXConfig(
        **SHAPE, parallel_residual=False, attention_bias=False, tied=True
    ),
    "llama, few key heads": LlamaConfig(**{**SHAPE, "num_heads": 4}, num_kv_heads=2, mlp_dim=24),
    "llama 3.1, tied, biases": LlamaConfig(
        **SHAPE,
        mlp_dim=24,
        head_dim=6,
        tied=True,
        attention_bias=True,
        rotary=RotaryConfig(scaling="llama3", factor=4.0, original_context=8),
    ),
    "mistral, a short window": LlamaConfig(**SHAPE, variant="mistral", mlp_dim=24, window=3),
    "qwen2": LlamaConfig(**SHAPE, variant="qwen2", mlp_dim=24),
    "qwen3": LlamaConfig(**SHAPE, variant="qwen3", mlp_dim=24, num_kv_heads=1),
    "opt": OPTConfig(**SHAPE),
    "opt 350m: norms after, projections": OPTConfig(
        **{**SHAPE, "embed_dim": 24}, token_dim=16, pre_norm=False
    ),
    "opt, norms without parameters": OPTConfig(**SHAPE, norm_parameters=False, bias=False),
    # Published deviations make logits of size 1; half of them, logits that say hardly anything.
    "t5": T5Config(**SHAPE, **T5_SHAPE, init_std=0.5),
    "t5 v1.1": T5Config(
        **SHAPE,
        **T5_SHAPE,
        num_decoder_layers=1,
        activation="gelu_tanh",
        gated=True,
        tied=False,
        scale_output=False,
    ),
}
