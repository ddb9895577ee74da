"""Text shared by environments: entity mentions, search by BM25, and plain UTF-8."""
