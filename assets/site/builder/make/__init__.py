"""Pages that are made from code and results."""
