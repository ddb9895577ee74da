"""Question files: formats of published sets, and their rows as tasks."""
