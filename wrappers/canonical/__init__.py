"""When two states count as one: similarity, embeddings, clusters, merging."""
