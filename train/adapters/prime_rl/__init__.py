"""prime-rl: an algorithm that credits whole groups of verifiers' episodes; it takes the place of one of prime-rl's own."""
