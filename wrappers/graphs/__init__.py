"""State and entity graphs of recorded episodes, and potentials learned from them."""
