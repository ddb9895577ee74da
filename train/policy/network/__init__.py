"""The network of a policy: a new model, its device, numerical precision and gradient checkpointing."""
