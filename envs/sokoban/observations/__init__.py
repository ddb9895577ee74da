"""Observations of boards: text, grids of codes, binary planes, images."""
