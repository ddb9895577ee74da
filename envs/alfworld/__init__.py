"""ALFWorld: household games in text, on a native engine."""
