"""A training run: its parts put together, its folder, its metrics."""
