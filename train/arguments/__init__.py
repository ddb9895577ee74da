"""Arguments and output rules shared by several commands."""
