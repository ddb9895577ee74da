"""TRL: training with our environments and credit."""
