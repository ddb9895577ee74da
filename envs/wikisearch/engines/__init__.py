"""Ranking engines over a corpus: our own BM25, tantivy and Lucene, behind one interface."""
