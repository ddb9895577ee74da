"""Tasks with tables: exact values and gradients by dynamic programming."""
