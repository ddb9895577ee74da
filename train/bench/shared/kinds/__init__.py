"""What the tasks of a shared policy are, beyond the grids of the exact suites, and what the policy sees of their states."""
