"""Cells of the suite ``shared`` with tasks and rollouts that the benchmark itself does not have.

Kinds of task: ``long``, walls and pits on a grid four times as large, with three times as many turns; ``key``, pits, and a goal that
opens only with a key, which lies elsewhere. Tasks of any kind can have state keys that are merged at random, hide something or never
repeat, partial scores, slips and another turn limit; outcomes can be reported wrongly, and groups without a difference replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from typing import Final, Literal

import numpy as np
from evidence.adam import AdamUpdate
from numpy.typing import NDArray

from creditflow.envs.sokoban.rules import FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, state_key
from creditflow.train.bench.exact.grid_layouts import (
    ACTIONS,
    HORIZON,
    Cell,
    GridLayout,
    floor_depths,
    grid_cells,
    scattered,
)
from creditflow.train.bench.exact.mdp import FiniteMDP, explore
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.exact.tasks import SOKOBAN_HORIZON
from creditflow.train.bench.learning.batch import Batch, Draw, LossTurns, Sampling
from creditflow.train.bench.learning.learner import Update
from creditflow.train.bench.learning.policy import Policy
from creditflow.train.bench.learning.stack import StackedTasks, sample_groups
from creditflow.train.bench.presets import SharedWork
from creditflow.train.bench.shared.cells import SharedCell
from creditflow.train.bench.shared.tasks import (
    Keys,
    ViewedTask,
    grid_parts,
    sokoban_tasks,
    unit_layouts,
    viewed_grid,
    viewed_tasks,
)
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL

__all__ = ["Changes", "StateKeys", "StudyCell", "StudySampling", "key_and_door", "long_layouts", "misreported"]

StateKeys = Literal["", "merged", "hidden", "fresh"]
Centring = Literal["none", "group"]
Scale = Literal["credit", "group"]
MIN_SCALE: Final = 1e-12  # advantages that are smaller differ from 0 by rounding
ALL_KEYS: Final[dict[str, Keys]] = {"merged": "aliased", "hidden": "aliased", "fresh": "fresh"}
STREAMS: Final = {"long": 8, "key": 11}
WITHOUT_PLAYER: Final = bytes.maketrans(bytes([PLAYER, PLAYER_ON_TARGET]), bytes([FLOOR, TARGET]))
PARTIAL: Final = 0.5  # largest score of an episode that reaches the turn limit
MERGED: Final = 0.5  # share of the states whose text key another state has too
ROUNDS: Final = 3  # batches that dynamic sampling samples for an update at most
MIN_KEY_DEPTH: Final = 2
LONG_SIDE, LONG_WALLS, LONG_PITS, LONG_HORIZON = 12, 40, 8, 60
MIN_LONG_DISTANCE, MAX_LONG_DISTANCE = 12, 24
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StudyCell(SharedCell):
    """One cell of the study.

    Attributes:
        state_keys: "" for those of the kind; "merged" at random, "hidden" (without the player or the key that it has), "fresh".
        graded, slip, horizon: see ``Changes``.
        wrong: probability that the outcome of a rollout is reported wrongly; success is always measured by the right one.
        dynamic: whether groups without a difference of outcomes are replaced by those of further tasks.
        centring, scale: of each group's credit, the same for all methods; see ``StudySampling``.
        rate: learning rate of Adam; 0: steps of a given KL divergence.
    """

    state_keys: StateKeys = ""
    graded: bool = False
    slip: float = 0.0
    horizon: int = 0
    wrong: float = 0.0
    dynamic: bool = False
    centring: Centring = "none"
    scale: Scale = "credit"
    rate: float = 0.0

    @property
    def keys(self) -> Keys:
        """Whether each state has its own key, several states share one, or every visit has a new one."""
        return ALL_KEYS.get(self.state_keys) or super().keys

    @property
    def stream(self) -> int:
        """The number of the kind's random streams."""
        return STREAMS[self.kind] if self.kind in STREAMS else super().stream

    @property
    def sampling(self) -> StudySampling:
        """How the updates of the cell are sampled."""
        plain = super().sampling
        given = {name: getattr(plain, name) for name in Sampling.__slots__}
        return StudySampling(**given, wrong=self.wrong, dynamic=self.dynamic, centring=self.centring, scale=self.scale)

    def update(self, work: SharedWork) -> Update:
        """The kind of step."""
        return AdamUpdate(self.rate, epochs=2, minibatches=2, unit=True) if self.rate else super().update(work)

    def tasks(self, seed: int, unit: int, count: int) -> list[ViewedTask]:
        """The tasks of a layout seed."""
        changes = Changes(self.state_keys == "merged", self.graded, self.slip, self.horizon)
        return [ViewedTask(changes.of(mdp), parts) for mdp, parts in self._unchanged(seed, unit, count)]

    def _unchanged(self, seed: int, unit: int, count: int) -> list[ViewedTask]:
        if self.kind == "sokoban":
            # states beyond the turn limit are not in the tables
            levels = sokoban_tasks(seed, unit, count, max(self.horizon, SOKOBAN_HORIZON))
            return [_boxes_only(*level) if self.state_keys == "hidden" else level[0] for level in levels]
        if self.kind == "long":
            return [viewed_grid(layout, LONG_HORIZON) for layout in islice(long_layouts(seed, unit), count)]
        if self.kind == "key":  # at least two thirds of the layouts have room for a key
            changed = map(key_and_door, unit_layouts("pits", seed, unit, 2 * count))
            return list(islice(filter(None, changed), count))
        return viewed_tasks(self.kind, seed, unit, count)


def _boxes_only(task: ViewedTask, boards: Sequence[bytes]) -> ViewedTask:
    """A Sokoban level whose text key shows the boxes only, so that one key merges all positions of the player."""
    mdp = task.mdp
    texts = tuple(state_key(board.translate(WITHOUT_PLAYER)) for board in boards[: mdp.size])
    return ViewedTask(replace(mdp, text_keys=texts + mdp.keys[mdp.size :]), task.parts)


@dataclass(frozen=True)
class StudySampling(Sampling):
    """Sampling with wrong reports and dynamic sampling.

    Attributes:
        together: whether the tasks of a batch are sampled together, or one after the other from the same generator.
        wrong: probability that the outcome of a rollout is reported wrongly; a score x becomes 1 − x.
        dynamic: whether groups whose rollouts all have one score are replaced by groups of further tasks (dynamic sampling, DAPO,
            arXiv 2503.14476, section 3.2), until B groups differ or ``ROUNDS`` batches have been sampled.
        centring: "group" subtracts from the advantages of each group their mean over the group's turns in the loss.
        scale: "group" divides them by their root mean square over these turns, so that all tasks weigh the same.
    """

    together: bool = True
    wrong: float = 0.0
    dynamic: bool = False
    centring: Centring = "none"
    scale: Scale = "credit"

    def loss_turns(self, groups: Sequence[ArrayGroup], credits_: Sequence[Credit]) -> LossTurns:
        """The turns of an update's groups that are in the loss, with a method's credit."""
        turns = super().loss_turns(groups, credits_)
        bounds = np.cumsum([int(credit.flat_loss_mask.sum()) for credit in credits_])[:-1]
        return turns._replace(advantage=np.concatenate([*map(self._weighted, np.split(turns.advantage, bounds))]))

    def _weighted(self, advantages: Floats) -> Floats:
        """The advantages of a group's turns in the loss, float64 (n,), centred and scaled."""
        if self.centring == "group" and len(advantages):
            advantages = advantages - advantages.mean()
        if self.scale == "group" and len(advantages):
            root = float(np.sqrt(np.mean(advantages**2)))
            advantages = advantages / root if root > MIN_SCALE else advantages
        return advantages

    def groups(self, stack: StackedTasks, tables: Floats, draw: Draw, size: int) -> list[list[ArrayGroup]]:
        """Sample one group of ``size`` rollouts by policy, float64 (M, S, A), and task of the stack."""
        groups = super().groups(stack, tables, draw, size) if self.together else self._apart(stack, tables, draw, size)
        if self.wrong:  # the same rollouts are reported wrongly under every policy
            wrong = draw.rng.random((len(draw.tasks), size)) < self.wrong
            groups = [list(map(misreported, of_policy, wrong)) for of_policy in groups]
        return groups

    def _apart(self, stack: StackedTasks, tables: Floats, draw: Draw, size: int) -> list[list[ArrayGroup]]:
        by_task = []
        for number, mdp in enumerate(stack.mdps):
            rows = tables[:, stack.offsets[number] : stack.offsets[number + 1]]
            name = f"{draw.name}/{number}"
            sampled = sample_groups(StackedTasks([mdp]), rows, size, draw.rng, name=name, fresh=self.fresh)
            by_task.append([group for (group,) in sampled])
        return [list(of_policy) for of_policy in zip(*by_task, strict=True)]

    def batches(
        self, mdps: Sequence[FiniteMDP], draw: Draw, policies: Sequence[Policy], *, size: int = 0
    ) -> list[Batch]:
        """Sample rollouts of every policy on the same tasks, with common random numbers."""
        batches = super().batches(mdps, draw, policies, size=size)
        if not self.dynamic:
            return batches
        once = replace(self, dynamic=False)
        return [once.different(mdps, draw, *given) for given in zip(policies, batches, strict=True)]

    def different(self, mdps: Sequence[FiniteMDP], draw: Draw, policy: Policy, first: Batch) -> Batch:
        """The batch with groups of further tasks in place of those whose rollouts all have one score."""
        rng = np.random.default_rng([*draw.seed, 71])  # what other methods draw stays the same
        chosen, sampled = list[tuple[int, ArrayGroup]](), first
        for number in range(1, ROUNDS + 1):
            groups = zip(sampled.tasks, sampled.groups, strict=True)
            chosen += [(i, group) for i, group in groups if np.ptp(group.arrays.score)]
            if len(chosen) >= len(draw.tasks) or number == ROUNDS:
                break
            tasks = rng.choice(list(draw.pool) or draw.tasks, size=len(draw.tasks)).tolist()
            (sampled,) = self.batches(mdps, draw._replace(tasks=tasks, rng=rng, name=f"{draw.name}/{number}"), [policy])
        if not chosen:
            return first
        chosen = chosen[: len(draw.tasks)]
        tasks = [i for i, _ in chosen]
        table = np.concatenate(policy.probabilities(tasks))
        return Batch(tasks, StackedTasks([mdps[i] for i in tasks]), table, [group for _, group in chosen])


def misreported(group: ArrayGroup, wrong: NDArray[np.bool_]) -> ArrayGroup:
    """The same rollouts with outcomes reported wrongly where ``wrong``, bool (G,): a score x becomes 1 − x."""
    arrays = group.arrays
    success, score = arrays.success ^ wrong, np.where(wrong, 1.0 - arrays.score, arrays.score)
    reward = np.zeros(len(arrays.reward))
    reward[arrays.last] = score
    end = np.where(wrong, np.where(success, GOAL, FAILED), arrays.end).astype(np.int8)
    changed = copy(group)
    for stale in ("trajectories", "turns", "episodes"):
        changed.__dict__.pop(stale, None)
    changed.__dict__["arrays"] = replace(arrays, success=success, score=score, returns=score, reward=reward, end=end)
    return changed


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different from a kind's tasks.

    Attributes:
        merged: whether half of the states share their text key with one other state, chosen at random.
        graded: whether an episode that reaches the turn limit is scored by the share of the way to success that it has
            gone: 0.5 · max(0, 1 − d / d₀), with d turns to success at its end and d₀ at its start.
        slip: probability that an action is replaced by a uniformly random one.
        horizon: the turn limit; 0 for that of the kind.
    """

    merged: bool = False
    graded: bool = False
    slip: float = 0.0
    horizon: int = 0

    def of(self, mdp: FiniteMDP) -> FiniteMDP:
        """The changed task."""
        if self.horizon:
            mdp = replace(mdp, horizon=self.horizon)
        if self.graded:
            mdp = _graded(mdp)
        if self.merged:
            mdp = replace(mdp, text_keys=_merged_keys(mdp))
        return _slippery(mdp, self.slip) if self.slip else mdp


def _graded(mdp: FiniteMDP) -> FiniteMDP:
    distance = mdp.distance[: mdp.size]
    gone = 1.0 - distance / distance[mdp.start]
    return replace(mdp, limit_score=np.where(np.isfinite(distance), PARTIAL * np.maximum(gone, 0.0), 0.0))


def _merged_keys(mdp: FiniteMDP) -> tuple[str, ...]:
    """Text keys in which random pairs of acting states have one key; the pairs depend on the task's name alone."""
    seed = int.from_bytes(blake2b(mdp.name.encode(), digest_size=8).digest(), "big")
    order = np.random.default_rng([seed, 61]).permutation(mdp.size)
    pairs = order[: 2 * int(MERGED * mdp.size / 2)].reshape(-1, 2)
    keys = list(mdp.keys)
    for first, second in pairs.tolist():
        keys[second] = keys[first]
    return tuple(keys)


def _slippery(mdp: FiniteMDP, slip: float) -> FiniteMDP:
    """The task in which each valid action has the result of a random valid one with this probability."""
    size, actions, branches = mdp.next_states.shape
    valid = [action for action in range(actions) if action != mdp.invalid]
    results = mdp.next_states[:, valid].reshape(size, 1, -1)
    random = mdp.transition_probs[:, valid].reshape(size, 1, -1) * (slip / len(valid))
    next_states = np.concatenate([mdp.next_states, np.broadcast_to(results, (size, actions, results.shape[2]))], axis=2)
    probabilities = np.concatenate(
        [mdp.transition_probs * (1.0 - slip), np.broadcast_to(random, (size, actions, random.shape[2]))], axis=2
    )
    if mdp.invalid is not None:  # a completion without an action changes nothing
        probabilities[:, mdp.invalid, branches:] = 0.0
        probabilities[:, mdp.invalid, :branches] = mdp.transition_probs[:, mdp.invalid]
    return replace(mdp, next_states=next_states.astype(np.int32), transition_probs=probabilities)


def _depths_without(layout: GridLayout, cells: Sequence[Cell]) -> dict[Cell, int]:
    """Turns from the start to every cell, with walls in place of ``cells``."""
    return floor_depths(_changed(layout, dict.fromkeys(cells, "#")))


def _changed(layout: GridLayout, symbols: Mapping[Cell, str]) -> GridLayout:
    """The layout with other symbols in some cells."""
    cells = [list(row) for row in layout.rows]
    for (row, column), symbol in symbols.items():
        cells[row][column] = symbol
    return replace(layout, rows=tuple(map("".join, cells)))


def key_and_door(layout: GridLayout) -> ViewedTask | None:
    """Put a key into a grid, without which the goal cannot be entered; returns its tables and what the policy sees.

    The text key is the agent's cell, which hides whether it has the key. The key lies in a cell chosen at random, seeded by the layout's digest. The policy sees whether it has the key, the direction
    of the key or then of the goal, and the effects of the moves. None if key and goal cannot be reached within the turn limit.
    """
    acting, (goal, *_) = grid_cells(layout)
    depth = floor_depths(layout)
    pool = [cell for cell in acting if cell in depth and depth[cell] >= MIN_KEY_DEPTH]
    if not pool:
        return None
    key_cell = pool[int(np.random.default_rng(int(layout.digest, 16)).integers(len(pool)))]
    if depth[key_cell] + _depths_without(_moved_start(layout, key_cell), []).get(goal, HORIZON + 1) > HORIZON:
        return None

    def results(state: tuple[Cell, bool], action: int) -> tuple[tuple[Cell, bool], float | None, bool]:
        cell, has_key = state
        after = layout.move(cell, action)
        if after == goal and not has_key:
            after = cell
        opened = after == goal
        return (after, has_key or after == key_cell), 1.0 if opened else None, opened

    def keys(state: tuple[Cell, bool]) -> tuple[str, str]:
        text = layout.keys(state[0])[0]
        return f"{text}:{'key' if state[1] else 'no key'}", text

    name = f"{layout.digest}:key"
    mdp = explore((layout.start, False), ACTIONS, results, keys, name=name, horizon=HORIZON, cap=2 * len(acting) + 2)
    without = grid_parts(_changed(layout, {goal: "#", key_cell: "G"}), mdp)
    with_key = grid_parts(layout, mdp)
    has_key = np.array([key.endswith(":key") for key in mdp.keys[: mdp.size]])
    views = np.where(has_key[:, None], with_key, without)
    marks = np.where(views[:, :1] >= 0, has_key[:, None], views[:, :1])
    return ViewedTask(mdp, np.concatenate([marks, views], axis=1).astype(np.int64))


def _moved_start(layout: GridLayout, cell: Cell) -> GridLayout:
    return layout if cell == layout.start else _changed(layout, {cell: "S", layout.start: "."})


def long_layouts(seed: int, unit: int) -> Iterator[GridLayout]:
    """Yield large grids endlessly, different ones for every layout seed ``unit``."""
    rng = np.random.default_rng([seed, unit, LONG_SIDE])
    while True:
        rows, goal = scattered(rng, LONG_SIDE, LONG_WALLS, LONG_PITS)
        layout = GridLayout(rows, ("." * LONG_SIDE,) * LONG_SIDE, 0)
        if MIN_LONG_DISTANCE <= floor_depths(layout).get(goal, 0) <= MAX_LONG_DISTANCE:
            yield layout
