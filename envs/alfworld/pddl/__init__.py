"""Parsing and writing PDDL: domains, problems and goals."""
