"""tinker-cookbook: our environments as token environments in groups, and credit per sampled token in its datums."""
