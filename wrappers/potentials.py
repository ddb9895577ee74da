"""Potentials of states, learned from the episodes of each task, and published as immutable versions.

A potential that estimates the value of the states under the policy that plays speeds up learning; one that estimates the
distance to success is far above the values of a policy that fails, and slows it down. So potentials by distance are *anchored*
(the value of the task's start is subtracted, a constant for each task and version) and leave states without a path
to success *unknown* instead of pricing them at 0.

If a potential changes within an episode, its shaping terms do not telescope. If it depends on which worker finishes first,
runs are not reproducible. Episodes are therefore collected and become a new version only on ``publish()``, independent of
the order in which they were collected.
"""

from __future__ import annotations

import copyreg
import json
import math
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.files.atomic import write_json
from creditflow.envs.reading.json_text import read_json
from creditflow.wrappers.credit.base import is_sum
from creditflow.wrappers.credit.registry import lookup, make, names
from creditflow.wrappers.credit.states.gigpo import discounted_returns
from creditflow.wrappers.credit.states.hgpo import history_groups
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import OPEN
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = [
    "POTENTIALS",
    "UNSEEN_EPISODES",
    "PotentialStore",
    "Potentials",
    "SavedPotential",
    "StoreLock",
    "discounted_parameters",
    "distance_discount",
    "read_document",
    "refusal",
    "refusal_reason",
    "require_effect",
]

FORMAT: Final = "creditflow-potentials/1"
DISTANCE_DISCOUNT: Final = 0.97  # of potentials by distance, for trainers that do not discount
UNSEEN_EPISODES: Final = 20  # episodes without a recurring state after which there is a warning
SEPARATOR: Final = "\x1f"  # between the keys of a history; no state key contains it
Floats = NDArray[np.float64]


class SavedPotential(ABC):
    """A version of Φ, which is a JSON document with a digest. It can stand in the place of a store, as one that learns nothing."""

    __slots__ = ()
    frozen: ClassVar[bool] = True
    pending: ClassVar[int] = 0

    def snapshot(self) -> Self:
        """Return this version."""
        return self

    publish = freeze = snapshot

    @property
    def digest(self) -> str:
        """blake2b-128 of the scheme, its parameters and all values, as hexadecimal digits."""
        return digest_of(self._document())

    def save(self, path: str | Path) -> None:
        """Write this version as a JSON file.

        Raises:
            ConfigError: the file exists.
        """
        if Path(path).exists():
            raise ConfigError(
                f"{path} exists: a version of a potential is never written over a file; choose another name"
            )
        write_json(path, {**self._document(), "digest": self.digest})

    @abstractmethod
    def _document(self) -> dict[str, Any]:
        """The version as JSON."""


@dataclass(frozen=True, slots=True)
class Potentials(SavedPotential):
    """One version of Φ.

    Attributes:
        version: number that increases with every change.
        values: Φ by task id, then by state key (of a history: the last keys, joined).
        goal: Φ of a success, used only with ``terminal="paper"``.
        scheme, parameters: what the values were computed by.
        depth: number of earlier states that Φ depends on; 0 for a function of the state.
    """

    version: int = 0
    values: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    goal: float = 0.0
    scheme: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    depth: int = 0

    def of(self, task_id: str, *history: str) -> float | None:
        """Return Φ; None if the task or the state is unknown.

        Args:
            task_id: id of the task.
            *history: keys of the states of the episode, the present one last; the longest known ending of them counts.
        """
        values = self.values.get(task_id)
        if values is None:
            return None
        for length in range(min(self.depth + 1, len(history)), 0, -1):
            value = values.get(SEPARATOR.join(history[-length:]))
            if value is not None:
                return value
        return None

    @classmethod
    def load(cls, path: str | Path) -> Potentials:
        """Read a version that ``save`` wrote.

        Raises:
            DataError: it is no such file, or was changed.
        """
        document = read_document(path, FORMAT)
        try:
            values = {}
            for task, by_key in document["values"].items():
                values[str(task)] = MappingProxyType({str(key): float(value) for key, value in by_key.items()})
            return cls(
                int(document["version"]),
                MappingProxyType(values),
                float(document["goal"]),
                str(document["scheme"]),
                MappingProxyType(dict(document["parameters"])),
                int(document["depth"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"{path}: malformed potentials: {error!r}") from error

    def _document(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "scheme": self.scheme,
            "parameters": dict(self.parameters),
            "version": self.version,
            "goal": self.goal,
            "depth": self.depth,
            "values": {task: dict(sorted(by_key.items())) for task, by_key in sorted(self.values.items())},
        }


def digest_of(document: Mapping[str, Any]) -> str:
    """blake2b-128 of a JSON document, as hexadecimal digits."""
    return blake2b(json.dumps(document, sort_keys=True).encode(), digest_size=16).hexdigest()


def read_document(path: str | Path, expected: str) -> dict[str, Any]:
    """Read a version of a format and check its digest; ``DataError`` if it is none, or was changed."""
    document = read_json(path)
    if not isinstance(document, dict) or document.get("format") != expected:
        raise DataError(f"{path} is not a file of potentials; expected 'format': {expected!r}, as save() writes it")
    stored = document.pop("digest", "")
    if stored != digest_of(document):
        raise DataError(f"{path}: the values do not have the digest in the file; it was changed or cut: save it again")
    return document


class PotentialStore:
    """Collects episodes and computes potentials from the last ones of each task.

    Args:
        scheme: a name in ``POTENTIALS``: by distance to a success "rewardflow" (γ^d, d hops) and "graphgpo" (R_succ γ_d^d, d
            by cost); values under the policy that played "grouptd" (policy evaluation on the group's graph), "gigpo"
            (mean discounted return of the state) and "hgpo" (of the last states).
        window: number of most recent episodes per task that are used; more if one ``add`` brings more. The order in which
            the episodes of one version were added has no effect.
        max_tasks: number of tasks that are kept, those with the most recent episodes. With ``window`` this bounds the memory.
        anchored: subtract the value of the task's start; by default for the schemes by distance.
        dead_ends: Φ of states from which no success was observed, for the schemes by distance: "unknown", or "zero".
        shuffle: permute the values among the known states of each task with this seed: a control without information.
        **parameters: parameters of the scheme on which its potential depends.

    Raises:
        ConfigError: a scheme without potential, an invalid parameter, one on which the potential does not depend, or ``window`` or ``max_tasks`` < 1.
    """

    def __init__(
        self,
        scheme: str,
        *,
        window: int = 10,
        max_tasks: int = 4096,
        anchored: bool | None = None,
        dead_ends: Literal["unknown", "zero"] = "unknown",
        shuffle: int | None = None,
        **parameters: Any,
    ) -> None:
        if scheme not in POTENTIALS:
            raise refusal(scheme, POTENTIALS)
        for name, number in (("window", window), ("max_tasks", max_tasks)):
            if number < 1:
                raise ConfigError(f"{name} must be ≥ 1, got {short_repr(number)}")
        if dead_ends not in ("unknown", "zero"):
            raise unknown_name_error("dead_ends", str(dead_ends), ["unknown", "zero"])
        kind = POTENTIALS[scheme]
        if scheme == "grouptd" and parameters.setdefault("form", "stationary") != "stationary":
            raise ConfigError("a potential is a function of the state alone: grouptd needs form='stationary'")
        instance = make(scheme, **{**kind.fixed, **parameters})
        require_effect(scheme, parameters, kind.parameters)
        self.scheme, self.window, self.max_tasks, self.shuffle = scheme, window, max_tasks, shuffle
        self.anchored = kind.by_distance if anchored is None else anchored
        self.dead_ends = dead_ends
        self.frozen = False
        self._kind, self._instance = kind, instance
        self._pending: list[Group] = []
        self._windows: dict[str, list[Group]] = {}
        self._lock = StoreLock()
        self._watch: _Recurrence | None = None
        settings = {"window": window, "anchored": self.anchored, "dead_ends": dead_ends, **parameters}
        if shuffle is not None:
            settings["shuffle"] = shuffle
        self._current = Potentials(
            goal=float(getattr(instance, kind.goal)) if kind.goal else 1.0,
            scheme=scheme,
            parameters=MappingProxyType(settings),
            depth=int(getattr(instance, kind.depth)) if kind.depth else 0,
        )

    @property
    def pending(self) -> int:
        """Number of episodes that the next version will add."""
        return sum(len(group.trajectories) for group in self._pending)

    @property
    def by_distance(self) -> bool:
        """Whether Φ is a distance to success rather than a value."""
        return self._kind.by_distance

    @property
    def key(self) -> Literal["state", "text"]:
        """Which of the environment's keys identifies a state."""
        return "text" if getattr(self._instance, "key", "state") == "text" else "state"

    def freeze(self) -> Potentials:
        """Learn nothing more; return the last version."""
        with self._lock:
            self.frozen, self._pending = True, []
        return self._current

    def warn_if_unseen(self) -> None:
        """Warn once if no state recurs in the first ``UNSEEN_EPISODES`` episodes: these then shape no other episode."""
        self._watch = self._watch or _Recurrence()

    def observe(self, trajectory: Trajectory) -> None:
        """Collect one finished episode for the next version; any thread may call it."""
        self.add([Group((replace(trajectory, parent="", fork_turn=-1),))])

    def add(self, groups: Iterable[Group]) -> None:
        """Collect groups for the next version."""
        collected = list(groups)
        with self._lock:
            if not self.frozen:
                self._pending += collected
                if self._watch is not None:
                    for group in collected:
                        self._watch.see(group, self.key)

    def publish(self) -> Potentials:
        """Compute the next version from all collected episodes, if a value changes; tasks without new episodes keep theirs."""
        with self._lock:
            if not self._pending:
                return self._current
            values = dict(self._current.values)
            new: dict[str, list[Group]] = {}
            for group in sorted(self._pending, key=_order):
                new.setdefault(group.task_id, []).append(group)
            for task, groups in new.items():
                self._windows[task] = _last([*self._windows.pop(task, []), *groups], self.window, len(groups))
                values.pop(task, None)
                if learned := self._values(self._windows[task]):
                    values[task] = MappingProxyType(learned)
            while len(self._windows) > self.max_tasks:
                oldest = next(iter(self._windows))
                del self._windows[oldest]
                values.pop(oldest, None)
            self._pending = []
            if values != dict(self._current.values):
                version = self._current.version + 1
                self._current = replace(self._current, version=version, values=MappingProxyType(values))
            return self._current

    def snapshot(self) -> Potentials:
        """Return the version that was published last."""
        return self._current

    def _values(self, groups: list[Group]) -> dict[str, float]:
        """Compute Φ of the states of one task from its episodes; {} as long as nothing distinguishes them."""
        merged = _merged(groups)
        if self.by_distance and not merged.arrays.success.any():
            return {}
        keys, numbers = self._kind.values(self._instance, merged)
        if self.by_distance and self.dead_ends == "zero":
            numbers = np.where(np.isnan(numbers), 0.0, numbers)
        values = {key: value for key, value in zip(keys, numbers.tolist(), strict=True) if math.isfinite(value)}
        if not any(values.values()):
            return {}
        if self.anchored:
            start = values.get(_start(merged, self.key), 0.0)
            values = {key: value - start for key, value in values.items()}
        if self.shuffle is not None:
            order = np.random.default_rng([self.shuffle, len(values)]).permutation(len(values))
            states = sorted(values)
            values = {state: values[states[i]] for state, i in zip(states, order.tolist(), strict=True)}
        return values


class _Recurrence:
    """Counts the first episodes, until a state of one recurs in a later one; where all begin does not count."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}
        self._episodes, self._decided = 0, False

    def see(self, group: Group, key: str) -> None:
        """Add the episodes of a group."""
        for member in group.trajectories:
            if self._decided or not member.turns:
                return
            by_text = key == "text"
            reached = {turn.text_key if by_text else turn.state_key for turn in member.turns[1:]}
            reached.add(member.final_text_key if by_text else member.final_state_key)
            seen = self._seen.setdefault(group.task_id, set())
            self._decided = not seen.isdisjoint(reached)
            seen |= reached
            self._episodes += 1
            if self._episodes >= UNSEEN_EPISODES and not self._decided:
                self._decided = True
                warnings.warn(
                    f"no state recurred in {self._episodes} episodes of {len(self._seen)} tasks, so nothing that was learned shapes "
                    "another episode. Let states be equal where their future is: state_key='rounded:1', or a function; let episodes "
                    "share a task: task=…, tasks that recur; or learn from features of observations instead of states: 'features'",
                    stacklevel=5,
                )


def _order(group: Group) -> tuple[str, str, str]:
    """Sort key of collected groups: their content, so that the order in which workers finish has no effect."""
    moves = list(map(_moves, group.trajectories))
    return group.task_id, group.group_id, blake2b(repr(moves).encode(), digest_size=16).hexdigest()


def _moves(member: Trajectory) -> list[tuple[str, str, str, float]]:
    return [(turn.state_key, turn.action, turn.next_state_key, turn.reward) for turn in member.turns]


def _last(groups: list[Group], window: int, added: int) -> list[Group]:
    """The most recent groups with at most ``window`` episodes together, but all that were added to this version if each is larger."""
    total, first = 0, len(groups)
    while first > 0 and total + len(groups[first - 1].trajectories) <= window:
        first -= 1
        total += len(groups[first].trajectories)
    if first == len(groups):  # the newest group alone exceeds the window
        first = len(groups) - added
    return groups[first:]


def _merged(groups: list[Group]) -> Group:
    """Merge the groups of a task into one."""
    task = groups[0].task_id
    members = [
        replace(m, group_id=task, trajectory_id=f"{n}/{m.trajectory_id}", parent=f"{n}/{m.parent}" if m.parent else "")
        for n, group in enumerate(groups)
        for m in group.trajectories
    ]
    return Group(tuple(members), groups[0].task)


def _start(group: Group, key: str) -> str:
    """Key of the state in which the task's episodes begin."""
    first = next(member for member in group.trajectories if not member.parent)
    if not first.turns:
        return first.final_text_key if key == "text" else first.final_state_key
    return first.turns[0].text_key if key == "text" else first.turns[0].state_key


def require_effect(scheme: str, parameters: Iterable[str], effective: Iterable[str]) -> None:
    """Reject parameters of a scheme on which its potential does not depend.

    Raises:
        ConfigError: there are such parameters; the message names them, and those on which the potential depends.
    """
    without = sorted(set(parameters) - set(effective))
    if without:
        raise ConfigError(
            f"the potential of {scheme} does not depend on {', '.join(without)}, so leave it out. It depends on "
            f"{', '.join(sorted(effective))}"
        )


def refusal(scheme: str, potentials: Iterable[str]) -> ConfigError:
    """The error for a name that is no potential: an unknown name, or a scheme and why it has none."""
    if is_sum(scheme):
        return ConfigError(
            f"{scheme} cannot be a potential: it is a sum of credits, and a potential is the value that one scheme gives to a state. "
            f"Potentials: {', '.join(sorted(potentials))}"
        )
    if scheme not in names():
        return unknown_name_error("scheme with a potential", scheme, potentials)
    listed = ", ".join(sorted(potentials))
    return ConfigError(f"{scheme} cannot be a potential: {refusal_reason(scheme)}. Potentials: {listed}")


def refusal_reason(scheme: str) -> str:
    """Why a registered scheme has no potential, as the rest of a sentence."""
    kind = lookup(scheme)
    if scheme == "sapo":
        return "it is gdcr with another advantage: use 'gdcr'"
    if requires := getattr(kind, "requires", ()):
        return f"it reads {', '.join(requires)}, which annotators write after the episode"
    if issubclass(kind, StateScheme):
        return "it compares the actions of a state; the value of the state itself is that of 'gigpo'"
    if getattr(kind, "task_fields", ()):
        return "it scores a turn against the other episodes of its group, not a state or a history"
    return "it gives no value to a state or a history"


# ---- the potential of each scheme ----

KeyedValues = tuple[Sequence[str], Floats]


def _read_only(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


copyreg.pickle(MappingProxyType, lambda mapping: (_read_only, (dict(mapping),)))  # potentials are copied with wrappers


class StoreLock:
    """The lock of a store. Its copy is a new lock, as the copy of a store is a store of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> Any:
        return StoreLock, ()


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a scheme values states.

    Attributes:
        values: computes keys and Φ of the states of a group of one task; nan where there is no path to a success.
        parameters: parameters of the scheme on which Φ depends; ``form`` has one permitted value.
        by_distance: whether Φ is a distance to success.
        from_rewards: whether Φ is made of rewards, so that it reads no success.
        goal: parameter that is Φ of a success; "" for 1.
        depth: parameter that is the number of earlier states that Φ depends on; "" for none.
        fixed: parameters without effect on Φ, some of whose values would restrict others.
    """

    values: Callable[[Any, Group], KeyedValues]
    parameters: tuple[str, ...]
    by_distance: bool = False
    from_rewards: bool = False
    goal: str = ""
    depth: str = ""
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def _by_distance(graph: StateGraph, distance: Floats, success_reward: float, discount: float) -> KeyedValues:
    """The reward of success, discounted by the distance to it, of open nodes; nan where success cannot be reached."""
    finite = np.isfinite(distance)
    values = np.where(finite, success_reward * discount ** np.where(finite, distance, 0.0), np.nan)
    is_open = graph.kind == OPEN  # terminal nodes have no potential of their own
    return [key for key, yes in zip(graph.keys, is_open.tolist(), strict=True) if yes], values[is_open]


def _rewardflow(scheme: Any, group: Group) -> KeyedValues:
    graph = StateGraph.from_group(group, key=scheme.key)
    graph = replace(graph, kept=(graph.source != graph.target) & group.arrays.valid)
    return _by_distance(graph, graph.distances("hops"), 1.0, scheme.discount)


def _graphgpo(scheme: Any, group: Group) -> KeyedValues:
    graph = StateGraph.from_group(group, key=scheme.key)
    return _by_distance(graph, graph.distances(), scheme.success_reward, scheme.distance_discount)


def _from_diagnostics(scheme: Any, group: Group) -> KeyedValues:
    """Values that the scheme computes on the way to its advantages, of the states in which a turn began."""
    diagnostics = scheme.assign(group).diagnostics
    visited = np.unique(group.states(scheme.key).state)
    return [diagnostics["node_keys"][i] for i in visited.tolist()], np.asarray(diagnostics["values"][visited])


def _mean_return(scheme: Any, group: Group) -> KeyedValues:
    states = group.states(scheme.key)
    visits = np.bincount(states.state, minlength=len(states.keys))
    total = np.bincount(
        states.state, discounted_returns(group, group.arrays.reward, scheme.discount), minlength=len(states.keys)
    )
    visited = np.flatnonzero(visits)
    return [states.keys[i] for i in visited.tolist()], total[visited] / visits[visited]


def _hgpo(scheme: Any, group: Group) -> KeyedValues:
    """Σ_k w_k V_k / Σ_k w_k over the histories of up to K + 1 states, V_k the mean return of the turns that share k + 1 of them."""
    states, offsets = group.states(scheme.key), group.arrays.offsets
    returns = discounted_returns(group, group.arrays.reward, scheme.discount)
    position = np.arange(len(states.state)) - offsets[group.arrays.trajectory]
    keys, values = list[str](), list[float]()
    total, weights = np.zeros(len(returns)), np.zeros(len(returns))
    for level, (labels, size) in enumerate(history_groups(states.state, offsets, scheme.history_length)):
        mean = np.bincount(labels, returns, minlength=size) / np.maximum(np.bincount(labels, minlength=size), 1)
        weight = np.where(position >= level, scheme.weight(level), 0.0)
        total, weights = total + weight * mean[labels], weights + weight
        value = total / np.maximum(weights, np.finfo(float).tiny)
        for turn in np.flatnonzero(position >= level).tolist():
            history = states.state[turn - level : turn + 1].tolist()
            keys.append(SEPARATOR.join(states.keys[state] for state in history))
            values.append(float(value[turn]))
    return keys, np.array(values)


POTENTIALS: Mapping[str, _Kind] = MappingProxyType(
    {
        "gigpo": _Kind(_mean_return, ("discount", "key"), from_rewards=True),
        "graphgpo": _Kind(
            _graphgpo, ("distance_discount", "key", "success_reward"), by_distance=True, goal="success_reward"
        ),
        "grouptd": _Kind(
            _from_diagnostics,
            ("discount", "form", "key", "outcome", "prior", "prior_weight"),
            fixed=MappingProxyType({"divide_by_success": False}),
        ),
        "hgpo": _Kind(
            _hgpo, ("discount", "history_length", "key", "weight_exponent"), from_rewards=True, depth="history_length"
        ),
        "rewardflow": _Kind(_rewardflow, ("discount", "key"), by_distance=True),
    }
)


def discounted_parameters(scheme: str, gamma: float, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a potential in units of the trainer's discounted return of an episode that pays 1 for success.

    A trainer without discount gets distances discounted by ``DISTANCE_DISCOUNT``: with γ = 1 every state from which success
    can be reached would have the same potential.
    """
    discount = distance_discount(gamma) if POTENTIALS[scheme].by_distance else gamma
    if scheme == "graphgpo":
        return {"distance_discount": discount, "success_reward": 1.0, **parameters}
    return {"discount": discount, **parameters}


def distance_discount(gamma: float) -> float:
    """The discount of distances for a trainer's γ."""
    return DISTANCE_DISCOUNT if gamma == 1.0 else gamma
