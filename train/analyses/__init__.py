"""The papers' own analyses, on any trajectory log: one analysis a file, each a program."""
