"""Records of episodes: turns, trajectories and groups, their arrays and their log format."""
