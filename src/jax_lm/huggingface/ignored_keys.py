"""Keys of any config.json that do not change the numbers a model computes, or not as they are."""

from collections.abc import Mapping
from typing import Any

IGNORED_KEYS = frozenset(
    {
        # What the file is, and what wrote it.
        *("_commit_hash", "_name_or_path", "architectures", "auto_map", "model_type"),
        *("dtype", "torch_dtype", "transformers_version", "is_encoder_decoder"),
        # What transformers returns, and how it computes it.
        *("_attn_implementation", "_attn_implementation_autoset", "attn_implementation"),
        *("chunk_size_feed_forward", "gradient_checkpointing", "output_attentions", "output_past"),
        *("output_hidden_states", "return_dict", "return_dict_in_generate", "torchscript"),
        *("use_bfloat16", "use_cache", "tf_legacy_loss"),
        # The tokenizer's.
        *("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id"),
        *("mask_token_id", "unk_token_id", "decoder_start_token_id", "tokenizer_class", "prefix"),
        # Heads for classification.
        *("classifier_dropout", "finetuning_task", "id2label", "label2id", "num_labels"),
        *("_num_labels", "problem_type", "task_specific_params", "cross_attention_hidden_size"),
        # How to generate, which belongs to generation_config.json now.
        *("bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample"),
        *("early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty"),
        *("forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length"),
        *("min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams"),
        *("num_return_sequences", "output_scores", "remove_invalid_values", "repetition_penalty"),
        *("suppress_tokens", "temperature", "top_k", "top_p", "typical_p"),
        # Asked for by a wrapper that is not loaded, or with no meaning left.
        "n_ctx",
    }
)
HARMLESS: Mapping[str, tuple[Any, ...]] = {"pruned_heads": ({}, [], None)}
"""Keys of any config.json that change nothing as long as they have one of these values."""
