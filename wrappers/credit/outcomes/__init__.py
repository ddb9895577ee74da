"""Schemes that use outcomes alone."""
