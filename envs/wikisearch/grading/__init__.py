"""Grading of answers and transcripts: metrics, an LLM judge, format checks, rewards."""
