"""Foreign environments: any Gymnasium environment under the contract of this package."""
