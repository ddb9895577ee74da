"""Logs in the formats of data libraries, with a data card; what was exported is read back as the same log."""
