"""Schemes that use the entities and passages found by a search."""
