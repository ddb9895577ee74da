"""Nearest vectors: raw shards on disk and exact search over them."""
