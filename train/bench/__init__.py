"""The benchmark: record rollouts once, score every scheme on them, learn under each with matched everything."""
