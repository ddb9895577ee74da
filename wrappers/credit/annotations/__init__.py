"""Schemes that read numbers which annotators wrote: values, likelihoods, judges' marks."""
