"""Game files: single files and folders of released games, and the canonical content that they describe."""
