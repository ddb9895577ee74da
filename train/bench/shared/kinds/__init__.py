"""Further kinds of tasks for a shared policy, and what the policy sees of their states."""
