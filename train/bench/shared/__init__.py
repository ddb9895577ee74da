"""The suite ``shared``: credit judged where one policy is shared by many tasks, with exact values."""
