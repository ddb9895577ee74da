"""verl: the plugin, its agent loop and advantage step."""
