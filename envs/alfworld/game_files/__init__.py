"""Game files: single files, folders and archives of released games, and the canonical content that they describe."""
