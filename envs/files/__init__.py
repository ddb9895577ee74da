"""Files on disk: written whole or not at all, read within limits, verified when they are opened."""
