"""``make_envs`` for verl-agent's scripts: our environments and credit by changing two lines.

In ``verl/trainer/main_ppo.py``, ``TaskRunner.run``, import this function in place of verl-agent's::

    from creditflow.train.adapters.verl_agent.environments import make_envs

In ``verl/trainer/ppo/ray_trainer.py``, ``RayPPOTrainer.fit``, call the manager in place of ``compute_advantage``::

    batch = self.envs.compute_advantage(

Both were read at verl-agent's commit d0b9724 (15 October 2025). Everything else, the scripts' arguments included, stays:
``env.env_name``, ``env.seed``, ``env.max_steps``, ``env.history_length``, ``env.rollout.n``, the batch sizes and the penalty
of invalid actions mean what they meant. ``+env.creditflow`` (``LoopSettings``) and ``+algorithm.creditflow`` (``SchemeSettings``)
choose other tasks, prompts and schemes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.registration import maker
from creditflow.train.adapters.verl_agent.manager import EnvironmentManager
from creditflow.train.adapters.verl_agent.settings import LoopSettings, entry, fork_scheme, loop_settings
from creditflow.train.adapters.verl_agent.task_order import TaskOrder
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import require_plain
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["make_envs"]

VALIDATION_SEED = 1000  # added to env.seed for validation, as verl-agent does


def make_envs(config: Any) -> tuple[EnvironmentManager, EnvironmentManager]:
    """The managers of training and validation.

    Args:
        config: verl-agent's complete config.

    Raises:
        ConfigError: settings that are unknown, of the wrong type, or not possible here.
    """
    settings, scheme = loop_settings(config), fork_scheme(config)
    require_plain(scheme)
    size = _count(config, "env.rollout.n", least=0) or 1
    seed = _count(config, "env.seed", least=0)
    training = _manager(config, settings, scheme, size=size, seed=seed, validates=False)
    return training, _manager(config, settings, scheme, size=1, seed=seed + VALIDATION_SEED, validates=True)


def _manager(
    config: Any, settings: LoopSettings, scheme: Scheme, *, size: int, seed: int, validates: bool
) -> EnvironmentManager:
    panel = settings.valid_panel if validates else settings.panel
    options = {
        "max_steps": _count(config, "env.max_steps"),
        **({"panel": panel} if panel else {}),
        **settings.options,
        **(settings.valid_options if validates else {}),
    }
    make = _group_factory(settings, size, options)
    groups = _count(config, "data.val_batch_size" if validates else "data.train_batch_size")
    tasks = TaskOrder(make().tasks, groups, seed, fixed=validates)
    window = _count(config, "env.history_length", least=0)
    return EnvironmentManager(settings, make, tasks, scheme, window=window, seed=seed, by_type=validates)


def _group_factory(settings: LoopSettings, size: int, options: dict[str, Any]) -> Callable[[], GroupEnv]:
    def make() -> GroupEnv:
        return GroupEnv(
            maker(settings.name, options), size=size, invalid_actions=settings.invalid_actions, texts=True, policy="lm"
        )

    return make


def _count(config: Any, path: str, least: int = 1) -> int:
    value = entry(config, path)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{path} must be an integer of at least {least}, got {short_repr(value)}")
    return value
