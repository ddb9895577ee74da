"""What verl loads by itself in every process once creditflow is installed: the entry point "verl.plugins".

It registers the estimator "creditflow", the agent loop "creditflow", and the credit step of verl's v1 trainers, so that
``python -m verl.trainer.main_ppo algorithm.adv_estimator=creditflow …`` needs no further code. verl keeps silent about
plugins that fail, so the reason is logged here. ``VERL_USE_EXTERNAL_PLUGINS=none`` turns all plugins off.
"""

from __future__ import annotations

import logging

try:  # the order matters to nobody; each module registers itself
    import creditflow.train.adapters.verl_estimator
    import creditflow.train.adapters.verl_loop
    import creditflow.train.adapters.verl_trainer  # noqa: F401
except Exception as error:
    logging.getLogger(__name__).warning("creditflow is not available inside verl: %s", error)
    raise
