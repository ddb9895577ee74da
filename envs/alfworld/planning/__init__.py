"""Shortest plans in a reduced game."""
