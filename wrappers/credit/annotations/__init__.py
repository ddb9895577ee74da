"""Schemes that use annotations: values, likelihoods, step rewards of LLM judges."""
