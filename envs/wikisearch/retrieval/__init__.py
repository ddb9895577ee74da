"""Retrieval: corpora, index folders, ranking engines, the client of a search server and the server."""
