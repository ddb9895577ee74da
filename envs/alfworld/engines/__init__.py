"""Who plays a game: our own rules, or TextWorld's engine."""
