"""Models on disk: opened as agents, with or without a LoRA adapter, and the settings kept beside their weights."""
