"""The wording of a game: templates of commands and replies, the replies themselves, and grammars of game files."""
