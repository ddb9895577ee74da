"""verl-agent and its forks: an environment manager for its loop, and a drop-in for its advantage function."""
