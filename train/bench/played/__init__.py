"""Played suites: learning and forks through the environment."""
