"""The data tier: without a library its tests are skipped with the reason; ``--require data`` makes that a failure."""
