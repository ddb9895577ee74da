"""Canonicalisation of states: similarity, embeddings, clusters, merging."""
