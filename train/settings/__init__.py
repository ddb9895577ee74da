"""Settings of a run: the schema, and how YAML and TOML are read into it."""
