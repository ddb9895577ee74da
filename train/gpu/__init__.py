"""The GPU acceptance script, for a machine without network."""
