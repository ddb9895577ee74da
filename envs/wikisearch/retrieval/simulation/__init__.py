"""Simulated search (ZeroSearch): documents that are useful or noisy by choice, and a curriculum of noise over a training run."""
