"""Products: read, indexed, stored on disk, or made from a grammar."""
