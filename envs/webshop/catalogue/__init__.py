"""Products: parsed, indexed, or generated from a grammar."""
