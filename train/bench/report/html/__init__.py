"""The report as one HTML page: its verdict, charts and explained words."""
