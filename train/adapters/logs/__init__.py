"""Logs of other libraries as groups, which every scheme, analysis and page can use.

One module for each library says which file it reads, which library writes that file, and what the file lacks. They yield
neutral ``Episode`` records, which ``episodes.py`` turns into trajectories; ``rows.py`` reads files within limits.
"""
