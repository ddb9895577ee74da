"""Products: parsed, indexed, stored on disk, or generated from a grammar."""
