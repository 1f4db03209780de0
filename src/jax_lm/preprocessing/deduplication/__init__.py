"""Copies and near copies of documents: signatures a shard, then one comparison of them all."""
