"""Shortest plans in the abstract game."""
