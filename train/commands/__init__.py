"""Commands of the `creditflow` entry point: one module each, with `add_arguments` and `run`."""
