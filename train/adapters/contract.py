"""The contract of an adapter: the batches that it must carry from a trainer's own types to its loss without a change.

An adapter's test builds its trainer's batch from each case, runs the adapter and hands back what stands on the sampled tokens;
``check_end`` compares that with the scheme's own numbers and runs ``check_batch`` on it. The page "Write an adapter in thirty lines" shows one.

>>> from creditflow.wrappers.credit.bridge import TurnColumns, advantages
>>> def end(case, scheme):
...     mask, spans = case.rows()
...     return case.split(advantages(scheme, TurnColumns.of(case.groups), mask=mask, spans=spans).per_token)
>>> check_end(end)
('unequal turns', 'one turn', 'equal outcomes', 'failed episodes', 'two groups', 'padding', 'resumed group', 'split batch')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import CreditflowError
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import Played, assign_turns, make_episode, make_group
from creditflow.wrappers.credit.check_batch import BatchReport, check_batch
from creditflow.wrappers.credit.registry import make
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import encode_line
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["CASES", "SCHEMES", "ContractCase", "End", "OnTokens", "check_end"]

SCHEMES: Final = ("grpo", "gigpo", "graphgpo")
OnTokens = list[list[list[float]]]  # per episode of the case, in order, per turn: the number on each sampled token
End = Callable[["ContractCase", Scheme], OnTokens]


@dataclass(frozen=True)
class ContractCase:
    """One batch.

    Attributes:
        name: what it is about.
        groups: the episodes that were played; their turns' ``response`` is the completion.
        padding: tokens of padding at the end of the longest row.
        complete: False where episodes of the group are missing, so that an adapter must raise an error or give no credit.
    """

    name: str
    groups: tuple[Group, ...]
    padding: int = 0
    complete: bool = True

    @property
    def episodes(self) -> list[Trajectory]:
        """The B episodes, group by group."""
        return [member for group in self.groups for member in group.trajectories]

    def record(self, episode: Trajectory) -> str:
        """The episode as a line of our log, as environments of this package hand it to a trainer."""
        return encode_line(episode, {})

    def counts(self, episode: Trajectory) -> list[tuple[int, int]]:
        """Per turn the number of tokens that the environment wrote before it, and of sampled tokens (different everywhere)."""
        return [(1 + t % 2, 1 + (t + len(episode.turns)) % 3) for t in range(len(episode.turns))]

    def rows(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """A row of tokens per episode: the mask of sampled tokens, bool (B, T), and the spans of all turns, int (N, 3)."""
        counts = [self.counts(episode) for episode in self.episodes]
        width = max(sum(map(sum, row)) for row in counts) + self.padding
        mask, spans = np.zeros((len(counts), width), np.bool_), []
        for row, turns in enumerate(counts):
            start = 0
            for observed, sampled in turns:
                mask[row, start + observed : start + observed + sampled] = True
                spans.append((row, start, start + observed + sampled))
                start += observed + sampled
        return mask, np.array(spans, np.int64)

    def split(self, rows: Any) -> OnTokens:
        """Numbers on tokens (B, T), in the layout of ``rows``, as numbers per turn; other tokens must have 0."""
        mask, spans = self.rows()
        table = np.asarray(rows, np.float64)
        _require(
            table.shape == mask.shape, f"{self.name}: expected numbers of the shape {mask.shape}, got {table.shape}"
        )
        _require(not table[~mask].any(), f"{self.name}: a number stands on a token that was not sampled")
        per_turn = [table[row, start:stop][mask[row, start:stop]].tolist() for row, start, stop in spans.tolist()]
        return self.by_episode(per_turn)

    def batch(self, on_tokens: OnTokens) -> BatchReport:
        """The report of ``check_batch`` on the step that these numbers make, with one row per episode."""
        mask, spans = self.rows()
        advantages, turns = np.zeros(mask.shape), np.full(mask.shape, -1)
        rows = [row for episode in on_tokens for row in episode]
        indices = [t for episode in self.episodes for t in range(len(episode.turns))]
        for (row, start, stop), t, values in zip(spans.tolist(), indices, rows, strict=True):
            turns[row, start:stop] = t
            advantages[row, start:stop][mask[row, start:stop]] = values
        return check_batch(
            advantages,
            mask,
            turns=turns,
            groups=[one.group_id for one in self.episodes],
            rewards=[one.episode_return for one in self.episodes],
        )

    def by_episode(self, per_turn: Sequence[list[float]]) -> OnTokens:
        """A list of N turns as lists of the B episodes."""
        remaining, lists = list(per_turn), list[list[list[float]]]()
        for episode in self.episodes:
            lists.append(remaining[: len(episode.turns)])
            del remaining[: len(episode.turns)]
        return lists


def check_end(end: End, *, schemes: Sequence[str] = SCHEMES, tolerance: float = 1e-6) -> tuple[str, ...]:
    """Run an adapter on every case; returns the names of the cases.

    Args:
        end: builds the trainer's batch from a case, runs the adapter with a scheme, and returns what stands on the sampled
            tokens of each turn of each episode.
        schemes: names of the schemes that are carried.
        tolerance: largest difference, relative and absolute: float32 travels where the trainer has it.

    Raises:
        AssertionError: numbers differ, or credit reached an incomplete group; names the case and the scheme.
    """
    for name in schemes:
        scheme = make(name)
        for case in CASES:
            if not case.complete:
                try:
                    on_tokens = end(case, scheme)
                except CreditflowError:
                    continue
                credited = any(number for episode in on_tokens for turn in episode for number in turn)
                _require(not credited, f"{case.name}, {name}: an incomplete group has credit")
                continue
            on_tokens = end(case, scheme)
            per_turn = [numbers for group in assign_turns(case.groups, scheme) for numbers in group]
            for episode, numbers, rows in zip(case.episodes, per_turn, on_tokens, strict=True):
                for t, ((_, count), number, row) in enumerate(
                    zip(case.counts(episode), numbers.tolist(), rows, strict=True)
                ):
                    np.testing.assert_allclose(
                        row,
                        [number] * count,
                        rtol=tolerance,
                        atol=tolerance,
                        err_msg=f"{case.name}, {name}: turn {t} of episode {episode.trajectory_id!r}",
                    )
            report = case.batch(on_tokens)
            _require(not report.errors, f"{case.name}, {name}: check_batch has errors\n{report}")
    return tuple(case.name for case in CASES)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _group(name: str, **episodes: str) -> Group:
    """A group from paths: states and actions in turn, then how it ended."""
    played: list[Played] = []
    for episode_name, path in episodes.items():
        *steps, ending = path.split()
        states, actions = steps[::2], steps[1::2]
        rewards = [0.0] * (len(actions) - 1) + [float(ending == "success")]
        episode = make_episode(
            f"{name}-{episode_name}", states=states, rewards=rewards, actions=actions, ended=ending, group_id=name
        )
        played.append((episode, {}))
    return make_group(name, played)


_UNEQUAL: Final = {
    "a": "hall left study open safe success",
    "b": "hall right cellar wait cellar left hall left study failed",
    "c": "hall wait hall env_limit",
}
CASES: Final = (
    ContractCase("unequal turns", (_group("g", **_UNEQUAL),)),
    ContractCase("one turn", (_group("g", a="hall left safe success", b="hall right cellar failed"),)),
    ContractCase(
        "equal outcomes", (_group("g", a="hall left study failed", b="hall right cellar wait cellar failed"),)
    ),
    ContractCase("failed episodes", (_group("g", **{**_UNEQUAL, "b": "hall right cellar env_error"}),)),
    ContractCase(
        "two groups", (_group("g", **_UNEQUAL), _group("h", **{**_UNEQUAL, "c": "hall left study open safe success"}))
    ),
    ContractCase("padding", (_group("g", **_UNEQUAL),), padding=3),
    # a group of the same name, after a resume: nothing may be left of the first one
    ContractCase("resumed group", (_group("g", **{**_UNEQUAL, "b": "hall left study open safe success"}),)),
    ContractCase("split batch", (Group(_group("g", **_UNEQUAL).trajectories[:1]),), complete=False),
)
