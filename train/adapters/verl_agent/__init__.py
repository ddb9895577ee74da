"""verl-agent and its forks: a drop-in for their advantage function."""
