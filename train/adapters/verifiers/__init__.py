"""verifiers v1: our environments as a taskset with its own environment and harness, and credit per turn in its traces."""
