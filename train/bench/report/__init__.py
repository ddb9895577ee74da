"""The report of a run: statistics, sanity checks, predictions, tables, plots and the page."""
