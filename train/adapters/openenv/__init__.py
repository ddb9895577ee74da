"""OpenEnv: any environment as an OpenEnv server (``creditflow serve env``), and a typed client for it."""
