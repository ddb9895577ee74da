"""The wording of a game: what commands and replies look like, and how a game file's grammar says so."""
