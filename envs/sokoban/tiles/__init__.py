"""Tiles: one picture per kind of cell, in two themes of our own drawing, at any whole size."""
