"""Games as files: single ones, folders and archives of released games, and the content they all mean."""
