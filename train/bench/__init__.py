"""The benchmark: measure every scheme on the same rollouts, and train a tabular policy with each under matched conditions.

Where a task can be tabulated, credit is also measured against exact values.
"""
