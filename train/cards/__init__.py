"""Reference cards of schemes: what each needs and reads, which properties it has, what it costs, how well it teaches."""
