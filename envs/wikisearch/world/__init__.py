"""A fictional encyclopedia: a constrained knowledge graph, generated articles, multi-hop questions with their evidence."""
