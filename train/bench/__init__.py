"""The benchmark: measure every scheme on the same rollouts, and train a tabular policy with each under matched conditions.

Where a task can be tabulated, credit is also measured against exact values. Importing the package registers four grid
worlds whose exact values are known: "grid-open", "grid-pits", "grid-alias" and "grid-slip".
"""

from creditflow.train.bench.exact.gridworlds import register_grids

register_grids()
