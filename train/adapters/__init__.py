"""Adapters for third-party trainers: one module or package per trainer, which imports the trainer only when it is used.

What a trainer must support for per-turn credit: the sampled token ids, a loss mask over them, one advantage per token,
and all episodes of a task together when credit is assigned. The middle of all of them is the bridge
(``wrappers/credit/bridge.py``), their common test ``contract.py``; ``README.md`` lists for each trainer what it accepts, the
lines to write, and the test that shows it.
"""
