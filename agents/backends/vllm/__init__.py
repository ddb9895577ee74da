"""vLLM as a backend in this process."""
