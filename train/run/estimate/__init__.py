"""A training run's memory and GPU hours, estimated from its settings and the sizes of its model before anything is loaded."""
