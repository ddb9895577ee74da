"""A fictional encyclopedia: a constrained knowledge graph, articles by grammar, multi-hop questions with their evidence."""
