"""Stable-Baselines3 on our environments."""
