"""Examples to read and to copy from: each is one file that reads from top to bottom."""
