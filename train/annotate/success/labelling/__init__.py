"""Labels for training a success model: pivots and outcomes."""
