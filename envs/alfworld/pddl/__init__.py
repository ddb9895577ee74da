"""PDDL, read and written."""
