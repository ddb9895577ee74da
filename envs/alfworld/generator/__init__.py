"""The generator: seeded, solvable houses."""
