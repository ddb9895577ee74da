"""A success model behind HTTP: the server, the local rater behind it, and the annotators that call a server."""
