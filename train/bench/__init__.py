"""The benchmark of credit schemes: exact ground truth, metrics, controls, learning curves, audits.

Importing it registers four grid worlds with known answers, "grid-open", "grid-pits", "grid-alias" and "grid-slip".
"""

from creditflow.train.bench.gridworlds import register_grids

register_grids()
