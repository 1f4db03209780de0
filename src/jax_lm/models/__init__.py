"""Model families: arrays in, hidden states and unembedding out (logits are their product).

Axis words, used in every annotation and for sharding: ``batch seq embed heads kv_heads head_dim
mlp vocab context layers``. Models know no mesh, tokenizer, optimizer or file.
"""
