"""The tier of other libraries' data formats: without a library its tests are skipped; ``--require data`` makes that a failure."""
