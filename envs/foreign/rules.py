"""How states, tasks and success of a foreign environment are defined: functions, or rules by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.foreign.keys import Rounded, StateKey, content_key
from creditflow.envs.foreign.results import truth_value

__all__ = ["SUCCESS_RULES", "Success", "state_rule", "success_rule", "task_rule"]

Success = Callable[[float, bool, bool, Mapping[str, Any]], Any]


def _terminated(_reward: float, terminated: bool, _truncated: bool, _info: Mapping[str, Any]) -> bool:
    return terminated


def _positive_reward(reward: float, terminated: bool, _truncated: bool, _info: Mapping[str, Any]) -> bool:
    return terminated and reward > 0.0


def _none(_reward: float, _terminated: bool, _truncated: bool, _info: Mapping[str, Any]) -> bool:
    return False


def _reported(_reward: float, _terminated: bool, _truncated: bool, info: Mapping[str, Any]) -> Any:
    for name in ("success", "is_success"):
        if name in info:
            return info[name]
    raise DataError(
        "success='reported' reads info['success'] or info['is_success'] of the last step, which has neither; its keys "
        f"are {', '.join(map(repr, sorted(map(str, info)))) or 'none'}"
    )


SUCCESS_RULES: Mapping[str, Success] = MappingProxyType(
    {"terminated": _terminated, "positive_reward": _positive_reward, "reported": _reported, "none": _none}
)


def success_rule(success: str | Success | None, env: str) -> Success:
    """Return the rule of a name, or the function itself.

    Args:
        success: name in ``SUCCESS_RULES``, or a function (reward, terminated, truncated, info) -> bool, called with the last
            step of an episode.
        env: name of the environment, for messages.

    Raises:
        ConfigError: None, or an unknown name.
    """
    if success is None:
        raise ConfigError(
            f"{env}: Gymnasium does not define success, so you have to. Pass success='terminated' (every end but a "
            "limit, as in CliffWalking), 'positive_reward' (terminated with a reward above 0, as in FrozenLake), 'reported' "
            "(info['success'] or info['is_success']), 'none' (only rewards count, as in CartPole), or a function (reward, terminated, "
            "truncated, info) -> bool, called with the last step"
        )
    if isinstance(success, str):
        if success not in SUCCESS_RULES:
            raise unknown_name_error("rule of success", success, SUCCESS_RULES)
        return SUCCESS_RULES[success]
    if not callable(success):
        raise ConfigError(f"success must be a function or a name, got {short_repr(success)}")
    return success


def state_rule(state_key: str | StateKey | None) -> StateKey:
    """Return the function of a state's content: "observation" (the default), "rounded:DECIMALS", or the function itself.

    Raises:
        ConfigError: an unknown name.
    """
    if state_key is None or state_key == "observation":
        return _observation
    if isinstance(state_key, str):
        name, _, decimals = state_key.partition(":")
        if name != "rounded" or not (decimals.isascii() and decimals.isdigit()):
            raise unknown_name_error("state key", state_key, ("observation", "rounded:2"))
        return Rounded(int(decimals[:3]))
    if not callable(state_key):
        raise ConfigError(f"state_key must be a function (observation, info) -> content, got {short_repr(state_key)}")
    return state_key


def task_rule(task: str | StateKey | None, env: str) -> Callable[[Any, Mapping[str, Any]], str]:
    """Return the function of a task's key, of the observation and info of ``reset``.

    Args:
        task: None for one task; the name of an entry of ``info``; or a function (observation, info) -> content.
        env: name of the environment, the key of its one task and the prefix of the others.

    Raises:
        ConfigError: neither. Its result raises it where ``info`` has no such entry.
    """
    if task is not None and not callable(task) and not isinstance(task, str):
        raise ConfigError(
            f"task must be the name of an entry of info or a function (observation, info) -> content, got {short_repr(task)}"
        )
    return partial(_task_key, task, env)


def _task_key(task: str | StateKey | None, env: str, observation: Any, info: Mapping[str, Any]) -> str:
    if task is None:
        return env
    if callable(task):
        content = task(observation, info)
    elif task in info:
        content = info[task]
    else:
        raise ConfigError(
            f"{env}: task={task!r} names an entry of the info that reset returns, which has only "
            f"{', '.join(map(repr, sorted(map(str, info)))) or 'none'}"
        )
    return f"{env}:{content_key(content, f'{env}: the task')}"


def _observation(observation: Any, _info: Mapping[str, Any]) -> Any:
    return observation


def judged(rule: Success, reward: float, terminated: bool, truncated: bool, info: Mapping[str, Any], env: str) -> bool:
    """Return a rule's judgement of the last step.

    Raises:
        DataError: it is not a truth value.
    """
    value = rule(reward, terminated, truncated, info)
    judgement = truth_value(value)
    if judgement is None:
        raise DataError(f"{env}: the rule of success must return True or False, got {short_repr(value)}")
    return judgement
