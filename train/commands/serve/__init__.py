"""Commands that serve over HTTP."""
