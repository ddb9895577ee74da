"""The suite ``shared``: credit schemes compared where many tasks share one policy, with exact values."""
