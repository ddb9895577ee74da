"""The policy and its update: training rows, log-probabilities, losses, optimiser, critic, checkpoints."""
