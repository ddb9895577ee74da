"""Nearest vectors: exact search over rows in memory or on disk."""
