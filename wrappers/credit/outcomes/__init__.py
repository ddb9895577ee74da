"""Schemes that read outcomes alone."""
