"""Sokoban levels: the XSB text format, level files, and the generator."""
