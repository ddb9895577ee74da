"""verl: the plugin, its agent loop, estimator and advantage step."""
