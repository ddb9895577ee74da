"""Advantage code of others, scored by the benchmark: which scheme it computes, and how good its gradient is.

The two questions are apart: an estimator can equal its paper and have a poor gradient, or differ and have a better one.
"""
