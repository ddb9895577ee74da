"""Graphs of recorded episodes: states, entities, and the potentials learned on them."""
