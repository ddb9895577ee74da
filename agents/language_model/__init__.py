"""Language models as agents: views become prompts, and completions are parsed into actions."""
