"""Choosing a scheme by data: features of a log, rules fitted to runs of the benchmark, and how well the rules do elsewhere."""
