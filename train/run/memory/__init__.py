"""The memory of a training run, computed from the sizes of its model before anything is loaded."""
