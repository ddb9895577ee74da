"""Suites without tables: learning and forks through the environment."""
