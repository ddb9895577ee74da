"""Rollouts, the trainer, adapters, the benchmark and the command line."""
