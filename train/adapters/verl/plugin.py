"""Entry point "verl.plugins": verl imports this module in every process once creditflow is installed.

It registers the agent loop "creditflow" and the credit step of verl's v1 trainers, so that
``python -m verl.trainer.main_ppo algorithm.adv_estimator=creditflow …`` needs no further code. verl hides the errors of
plugins, so the reason is logged here. ``VERL_USE_EXTERNAL_PLUGINS=none`` turns all plugins off.
"""

from __future__ import annotations

import logging
from importlib import import_module

try:  # each module registers itself, in whatever order
    for module in ("loop", "trainer"):
        import_module(f"creditflow.train.adapters.verl.{module}")
except Exception as error:
    logging.getLogger(__name__).warning("creditflow is not available inside verl: %s", error)
    raise
