"""Language models as agents: prompts in, answers parsed into actions."""
