"""Reference cards of schemes: what each needs and reads, which properties it has, what it costs, and how well policies learn from it."""
