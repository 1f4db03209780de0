"""The published sizes, from the config.json of each; and some that fit smaller machines."""

from typing import Any

from jax_lm.models.layers.rotary import RotaryConfig
from jax_lm.models.llama.config import LlamaConfig


def _llama(num_layers: int, num_heads: int, embed_dim: int, **more: Any) -> LlamaConfig:
    shape = {"num_layers": num_layers, "num_heads": num_heads, "embed_dim": embed_dim}
    return LlamaConfig(**{"vocab_size": 32_000, **shape, **more})


def _llama_3(*shape: int, **more: Any) -> LlamaConfig:
    defaults = {"context_length": 8192, "num_kv_heads": 8, "rotary": RotaryConfig(base=5e5)}
    return _llama(*shape, vocab_size=128_256, norm_epsilon=1e-5, **{**defaults, **more})


def _llama_3_1(*shape: int, factor: float, **more: Any) -> LlamaConfig:
    rotary = RotaryConfig(base=5e5, scaling="llama3", factor=factor)
    return _llama_3(*shape, context_length=131_072, rotary=rotary, **more)


def _mistral(**more: Any) -> LlamaConfig:
    shape = {"variant": "mistral", "num_kv_heads": 8, "mlp_dim": 14_336, "context_length": 32_768}
    return _llama(32, 32, 4096, norm_epsilon=1e-5, **shape, **more)


def _qwen(*shape: int, **more: Any) -> LlamaConfig:
    return _llama(*shape, **{"vocab_size": 151_936, "rotary": RotaryConfig(base=1e6), **more})


def _qwen2(*shape: int, **more: Any) -> LlamaConfig:
    return _qwen(*shape, variant="qwen2", context_length=131_072, **more)


def _qwen3(*shape: int, **more: Any) -> LlamaConfig:
    return _qwen(*shape, variant="qwen3", num_kv_heads=8, context_length=40_960, **more)


def _stories(*shape: int, **more: Any) -> LlamaConfig:
    return _llama(*shape, norm_epsilon=1e-5, tied=True, **more)


PRESETS = {
    "llama-7b": _llama(32, 32, 4096),
    "llama-13b": _llama(40, 40, 5120),
    "llama-30b": _llama(60, 52, 6656),
    "llama-65b": _llama(80, 64, 8192, norm_epsilon=1e-5),
    "llama-2-7b": _llama(32, 32, 4096, norm_epsilon=1e-5, context_length=4096),
    "llama-2-13b": _llama(40, 40, 5120, norm_epsilon=1e-5, context_length=4096),
    "llama-2-70b": _llama(
        80, 64, 8192, norm_epsilon=1e-5, context_length=4096, num_kv_heads=8, mlp_dim=28_672
    ),
    "llama-3-8b": _llama_3(32, 32, 4096, mlp_dim=14_336),
    "llama-3-70b": _llama_3(80, 64, 8192, mlp_dim=28_672),
    "llama-3.1-8b": _llama_3_1(32, 32, 4096, factor=8.0, mlp_dim=14_336),
    "llama-3.1-70b": _llama_3_1(80, 64, 8192, factor=8.0, mlp_dim=28_672),
    "llama-3.2-1b": _llama_3_1(16, 32, 2048, factor=32.0, mlp_dim=8192, tied=True),
    "llama-3.2-3b": _llama_3_1(28, 24, 3072, factor=32.0, tied=True),
    "mistral-7b-v0.1": _mistral(window=4096),
    "mistral-7b-v0.3": _mistral(vocab_size=32_768, rotary=RotaryConfig(base=1e6)),
    "qwen2-0.5b": _qwen2(24, 14, 896, num_kv_heads=2, mlp_dim=4864, tied=True),
    "qwen2-1.5b": _qwen2(28, 12, 1536, num_kv_heads=2, mlp_dim=8960, tied=True),
    "qwen2-7b": _qwen2(28, 28, 3584, num_kv_heads=4, mlp_dim=18_944, vocab_size=152_064),
    "qwen3-0.6b": _qwen3(28, 16, 1024, head_dim=128, mlp_dim=3072, tied=True),
    "qwen3-1.7b": _qwen3(28, 16, 2048, mlp_dim=6144, tied=True),
    "qwen3-4b": _qwen3(36, 32, 2560, head_dim=128, mlp_dim=9728, tied=True),
    "qwen3-8b": _qwen3(36, 32, 4096, mlp_dim=12_288),
    "tinyllama-1.1b": _llama(22, 32, 2048, norm_epsilon=1e-5, num_kv_heads=4),
    # No one model's: round sizes to train and to measure with.
    "llama-100m": _llama(12, 12, 768, tied=True),
    "llama-1b": _llama(16, 16, 2048, mlp_dim=8192, tied=True),
    # Of https://github.com/karpathy/llama2.c, trained on TinyStories.
    "stories260k": _stories(
        5, 8, 64, vocab_size=512, num_kv_heads=4, mlp_dim=172, context_length=512
    ),
    "stories15m": _stories(6, 6, 288, context_length=256),
    "stories42m": _stories(8, 8, 512, mlp_dim=1376, context_length=1024),
    "stories110m": _stories(12, 12, 768, context_length=1024),
}
"""Published shapes by name; ``llama-7b`` is also the generic one of that size."""
