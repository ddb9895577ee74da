"""Environments of others: any Gymnasium environment under the contract of this package."""
