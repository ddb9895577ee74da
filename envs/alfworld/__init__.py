"""ALFWorld: household tasks in text, with native rules that reproduce TextWorld's engine byte for byte.

Reading order: ``env``, ``rules``, ``world`` (the state) and ``game`` (the house), ``wording`` (replies), ``game_files`` and
``generator`` (sources of houses), ``oracle``.
"""
