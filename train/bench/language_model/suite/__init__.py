"""The suite ``lm``: which credit teaches a language model best, judged exactly."""
