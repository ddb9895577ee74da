"""The tasks of a foreign environment: its seeds. A task is what ``reset`` is called with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import gymnasium as gym
import numpy as np

from creditflow.envs.errors import ConfigError, DataError, UnknownTaskError, short_repr
from creditflow.envs.tasks import Task, content_id

__all__ = ["SeedTasks", "problem_name"]

MAX_SEED: Final = 2**63 - 1
_SEED: Final = re.compile(r"seed=(0|[1-9][0-9]{0,18})")


class SeedTasks:
    """An endless source: ``{"env": NAME, "seed": N}``, and ``"options"`` if ``reset`` is given any; ids ``NAME:seed=N``.

    Args:
        name: name of the problem, the prefix of the ids.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def sample(self, rng: np.random.Generator) -> Task:
        """Sample a seed."""
        return self.from_content({"seed": int(rng.bit_generator.random_raw()) >> 33})

    def get(self, task_id: str) -> Task:
        """Return the task of an id without options.

        Raises:
            UnknownTaskError: an id of another form, or of another environment.
        """
        name, _, rest = task_id.rpartition(":")
        match = _SEED.fullmatch(rest)
        if name != self.name or match is None or int(match[1]) > MAX_SEED:
            raise UnknownTaskError(
                f"{self.name}: task {short_repr(task_id, 80)} is not one of its seeds: an id is {self.name}:seed=7; a task "
                "with options of reset is given by its content, options={'task': {'seed': 7, 'options': {…}}}"
            )
        return self.from_content({"seed": int(match[1])})

    def from_content(self, content: Any) -> Task:
        """Return the task with this content.

        Raises:
            DataError: malformed content, or that of another environment.
        """
        allowed = {"env", "seed", "options"}
        if not isinstance(content, Mapping) or not set(content) <= allowed or "seed" not in content:
            raise DataError(
                f"{self.name}: a task is {{'seed': N}}, with 'options' if needed; got {short_repr(content)}"
            )
        seed, options = content["seed"], content.get("options")
        if type(seed) is not int or not 0 <= seed <= MAX_SEED:
            raise DataError(f"{self.name}: a seed is an integer from 0 to 2⁶³ − 1, got {short_repr(seed)}")
        if content.get("env", self.name) != self.name:
            raise DataError(f"{self.name}: the task is of another environment: {short_repr(content['env'])}")
        plain: dict[str, Any] = {"env": self.name, "seed": seed}
        task_id = f"{self.name}:seed={seed}"
        if options is not None and not (isinstance(options, Mapping) and all(isinstance(key, str) for key in options)):
            raise DataError(f"{self.name}: the options of a task are a mapping of names, got {short_repr(options)}")
        if options:
            try:
                plain["options"] = json.loads(json.dumps(options, allow_nan=False))
            except (TypeError, ValueError, RecursionError) as error:
                raise DataError(f"{self.name}: the options of a task must be JSON: {error}") from error
            task_id += f",{content_id('options', plain['options'])[:16]}"
        return Task(task_id, task_id, plain)

    def task_ids(self) -> tuple[str, ...]:
        """(): there are endlessly many."""
        return ()


def problem_name(env: gym.Env[Any, Any]) -> str:
    """Return the name of the problem that an environment poses: its id, with a digest of arguments that are not the default.

    Raises:
        ConfigError: an argument is not plain data, so that two problems could get one name.
    """
    spec = env.spec
    if spec is None:
        return type(env.unwrapped).__name__
    registered = gym.registry.get(spec.id)
    default = registered.kwargs if registered is not None else {}
    arguments = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    try:
        text, usual = (json.dumps(value, sort_keys=True, default=_listed) for value in (arguments, default))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{spec.id}: an argument is not plain data ({error}), so tasks cannot be told apart by it; name the problem "
            "yourself: ForeignEnv(env, name=…, success=…)"
        ) from error
    return spec.id if text == usual else content_id(spec.id, json.loads(text)).replace(":", "+")[: len(spec.id) + 9]


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__}: {short_repr(value)}")
