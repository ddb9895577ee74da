"""Text search as Lucene does it: English analysis, BM25 over an inverted index in memory."""
