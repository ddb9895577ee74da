"""The report of a run: statistics, sanity checks, tables, plots and the page."""
