"""Claims of papers put to the test at a scale that two CPU cores allow; each module is a command that can fail."""
