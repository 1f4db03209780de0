"""Layers shared by the families.

Einsum letters: b batch, t query position, s key/value position, e embed, h heads, d head_dim,
m mlp, v vocab.
"""
