"""What a run says: statistics, sanity rules, predictions, tables, plots and the page."""
