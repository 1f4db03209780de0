"""The models of ``step_time.py`` in PyTorch, as its users write them."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from jax_lm.models.gpt2 import GPT2Config
from jax_lm.models.llama import LlamaConfig


class Block(nn.Module):
    """A GPT-2 block: one product for queries, keys and values, fused attention."""

    def __init__(self, config: GPT2Config) -> None:
        """Default initialisation; ``GPT2`` sets it."""
        super().__init__()
        width, self.heads = config.embed_dim, config.num_heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two residual lines."""
        batch, seq, width = x.shape
        projected = self.inward(self.attention_norm(x)).split(width, dim=2)
        query, key, value = (y.view(batch, seq, self.heads, -1).transpose(1, 2) for y in projected)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.outward(attended.transpose(1, 2).reshape(batch, seq, width))
        hidden = functional.gelu(self.up(self.feed_forward_norm(x)), approximate="tanh")
        return x + self.down(hidden)


class GPT2(nn.Module):
    """Token ids to logits, the output matrix tied."""

    def __init__(self, config: GPT2Config) -> None:
        """Normal weights, as published but for the residual projections."""
        super().__init__()
        self.token_embedding = nn.Embedding(config.vocab_size, config.embed_dim)
        self.position_embedding = nn.Embedding(config.context_length, config.embed_dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.final_norm = nn.LayerNorm(config.embed_dim)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=config.init_std)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Logits of every position."""
        x = self.token_embedding(input_ids) + self.position_embedding.weight[: input_ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.final_norm(x), self.token_embedding.weight)


class Llama(nn.Module):
    """The model of transformers with fused attention."""

    def __init__(self, config: LlamaConfig) -> None:
        """Random weights."""
        from transformers import LlamaConfig as TheirConfig
        from transformers import LlamaForCausalLM

        super().__init__()
        self.model = LlamaForCausalLM(
            TheirConfig(
                vocab_size=config.vocab_size,
                hidden_size=config.embed_dim,
                intermediate_size=config.feed_forward_dim,
                num_hidden_layers=config.num_layers,
                num_attention_heads=config.num_heads,
                num_key_value_heads=config.num_kv_heads or config.num_heads,
                max_position_embeddings=config.context_length,
                tie_word_embeddings=config.tied,
                attn_implementation="sdpa",
                use_cache=False,
            )
        )

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Logits of every position."""
        return self.model(input_ids).logits


def make(config: Any) -> nn.Module:
    """The model of a configuration of ours."""
    return GPT2(config) if isinstance(config, GPT2Config) else Llama(config)
