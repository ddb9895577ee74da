"""Text functions that environments share: entity matching, BM25 search, valid UTF-8."""
