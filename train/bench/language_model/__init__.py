"""Language models on tasks with tables: exact action probabilities, values and updates instead of sampled episodes."""
