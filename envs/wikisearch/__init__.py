"""WikiSearch: questions, a local encyclopedia to search, and the evidence graph behind every question."""
