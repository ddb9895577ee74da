"""Tests of papers' claims at a scale that two CPU cores allow; each module is a command that can fail."""
