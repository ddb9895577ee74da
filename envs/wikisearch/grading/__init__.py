"""What an answer and its transcript are worth."""
