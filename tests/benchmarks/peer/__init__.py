"""Our trainer beside another one that does the same work."""
