"""Files on disk: atomic writes, locks, folders with checksums, paths that users give."""
