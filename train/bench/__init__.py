"""The benchmark: record rollouts once, score every scheme on them, learn under each with matched everything.

Where a task can be tabulated, schemes are also measured against exact values. Importing the package makes four grid
worlds with known answers available: "grid-open", "grid-pits", "grid-alias" and "grid-slip".
"""

from creditflow.train.bench.exact.gridworlds import register_grids

register_grids()
