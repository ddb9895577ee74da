"""Game backends: native rules, or TextWorld's engine."""
