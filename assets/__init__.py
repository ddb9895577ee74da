"""Package data, all our own work: task panels and page templates."""
