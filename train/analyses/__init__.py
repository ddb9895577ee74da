"""The papers' own analyses, on any trajectory log: one analysis a file, one command for all (``creditflow analyse``)."""
