"""rLLM: a workflow that plays our environments, and a grouping hook that writes ``Step.advantage``."""
