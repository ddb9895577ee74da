"""Schemes that read which entities and passages a search found."""
