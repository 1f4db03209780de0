"""LLaMA (Touvron et al. 2023, arXiv:2302.13971) and the models built like it.

Notable features: rotary positions; pre-norm blocks with RMSNorm; SwiGLU; no biases; output matrix
untied from the token embedding in the larger models; fewer heads for keys than for queries from
LLaMA 2 on (Touvron et al. 2023, arXiv:2307.09288); rotations scaled for long contexts in LLaMA 3.1
(Grattafiori et al. 2024, arXiv:2407.21783). Mistral (Jiang et al. 2023, arXiv:2310.06825) adds a
sliding window, Qwen2 (Yang et al. 2024, arXiv:2407.10671) biases on queries, keys and values, Qwen3
(Yang et al. 2025, arXiv:2505.09388) norms of queries and keys.
"""

from jax_lm.models.llama.config import LlamaConfig, default_mlp_dim
from jax_lm.models.llama.model import Llama
from jax_lm.models.llama.presets import PRESETS

__all__ = ["PRESETS", "Llama", "LlamaConfig", "default_mlp_dim"]
