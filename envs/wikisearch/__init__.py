"""WikiSearch: multi-hop questions, a corpus to search, and the evidence graph of every question."""
