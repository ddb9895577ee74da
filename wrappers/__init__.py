"""From episodes to credit: trajectories, state graphs, wrappers that record and shape, and the credit schemes."""
