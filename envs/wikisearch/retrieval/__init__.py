"""Passages and who ranks them: corpora, index folders, engines, clients and the search server."""
