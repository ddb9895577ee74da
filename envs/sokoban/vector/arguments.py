"""Arguments and actions of the vector environment, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error

__all__ = ["Actions", "check_supported", "checked_count", "checked_mask", "reset_mode"]

Ints = npt.NDArray[np.int64]
MAX_ENVS: Final = 1 << 20


def checked_count(num_envs: Any, group_size: Any) -> tuple[int, int]:
    """Return both, checked.

    Raises:
        ConfigError: not a positive integer, or groups that do not fill the environments.
    """
    if type(num_envs) is not int or not 1 <= num_envs <= MAX_ENVS:
        raise ConfigError(f"num_envs must be an integer from 1 to {MAX_ENVS:,}, got {short_repr(num_envs)}")
    if type(group_size) is not int or group_size < 1 or num_envs % group_size:
        raise ConfigError(
            f"group_size must be a positive integer that divides num_envs={num_envs}, got {short_repr(group_size)}"
        )
    return num_envs, group_size


def check_supported(arguments: Mapping[str, Any]) -> None:
    """Check that these arguments of ``SokobanEnv`` are ones for many boards at once.

    Raises:
        ConfigError: a window.
    """
    if arguments.get("render_mode") == "human":
        raise ConfigError(
            "render_mode='human' shows one environment; make a vector environment with 'rgb_array' or 'ansi', "
            "or a single one with creditflow.make"
        )


def reset_mode(mode: Any) -> AutoresetMode:
    """Return the mode, given as itself, by its value ("NextStep") or by its name ("NEXT_STEP").

    Raises:
        ConfigError: unknown mode; suggests the nearest one.
    """
    if isinstance(mode, AutoresetMode):
        return mode
    for option in AutoresetMode:
        if mode in (option.value, option.name):
            return option
    raise unknown_name_error("autoreset_mode", mode, [option.value for option in AutoresetMode])


def checked_mask(options: Mapping[str, Any], num_envs: int) -> Ints:
    """Return the numbers of the environments that ``options["reset_mask"]`` names; without it, all.

    Raises:
        ConfigError: not a Boolean array of shape (N,), or one without True.
    """
    mask = options.get("reset_mask")
    if mask is None:
        return np.arange(num_envs)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        actual = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else short_repr(mask)
        raise ConfigError(f"options['reset_mask'] must be a NumPy array of bool with shape ({num_envs},), got {actual}")
    if not mask.any():
        raise ConfigError("options['reset_mask'] has no True: there is nothing to reset")
    return np.flatnonzero(mask)


class Actions:
    """Reads the actions of one step.

    Args:
        num_envs: number of environments.
        count: number of actions of each.
        parse: the strict parser of one action: action -> (number or None, reason).
        as_text: whether actions are texts, else numbers.
    """

    def __init__(
        self, num_envs: int, count: int, parse: Callable[[Any], tuple[int | None, str]], *, as_text: bool
    ) -> None:
        self._num_envs, self._count, self._parse, self._as_text = num_envs, count, parse, as_text

    def read(self, actions: Any) -> tuple[Ints, dict[int, str]]:
        """Return the numbers of the actions, int64 (N,), -1 if invalid, and the reasons of the invalid ones.

        Raises:
            ConfigError: not one action per environment, or not integers (strings with ``action_mode="text"``).
        """
        if self._as_text:
            return self._read_texts(actions)
        try:
            array = np.asarray(actions)
        except ValueError:  # a ragged list
            array = np.empty(0, dtype=object)
        if array.dtype.kind not in "iu" or array.shape != (self._num_envs,):
            raise ConfigError(
                f"actions must be {self._num_envs} integers, one per environment: an integer array of shape "
                f"({self._num_envs},), got {array.dtype} {array.shape}"
            )
        valid = (array >= 0) & (array < self._count)
        if valid.all():
            return array.astype(np.int64), {}
        reasons = {number: self._parse(array[number])[1] for number in np.flatnonzero(~valid).tolist()}
        return np.where(valid, array, 0).astype(np.int64) - ~valid, reasons

    def texts(self, actions: Any) -> Sequence[Any]:
        """Return the actions if they are a list or tuple of one text per environment.

        Raises:
            ConfigError: they are not.
        """
        ordered = isinstance(actions, (list, tuple)) or (isinstance(actions, np.ndarray) and actions.ndim == 1)
        if not ordered or len(actions) != self._num_envs:
            raise ConfigError(
                f"actions must be a list or tuple of {self._num_envs} strings, one per environment, got {short_repr(actions)}"
            )
        checked: Sequence[Any] = actions
        return checked

    def _read_texts(self, actions: Any) -> tuple[Ints, dict[int, str]]:
        numbers, reasons = np.empty(self._num_envs, dtype=np.int64), {}
        for index, action in enumerate(self.texts(actions)):
            number, reason = self._parse(action)
            if number is None:
                numbers[index], reasons[index] = -1, reason
            else:
                numbers[index] = number
        return numbers, reasons
