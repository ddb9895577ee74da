"""The suite ``lm``: which credit scheme a language model learns best from, with exact evaluation."""
