"""Released advantage code of trainers as estimators for ``creditflow bench --estimator``.

Each module calls what its library released and only lays out its arguments; ``train/adapters/DATA.md`` lists what they compute.
"""
