"""Packed micro-batches: rows as a forest of token sequences, in which a prefix that rows share is computed once."""
