"""Exact suites: tasks as tables, values and gradients by dynamic programming."""
