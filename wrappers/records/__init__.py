"""Episodes as records: turns, trajectories, groups, their arrays and their log format."""
