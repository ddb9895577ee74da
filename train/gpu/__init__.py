"""What a GPU has to prove, as one script for a bare machine."""
