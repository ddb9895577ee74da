"""From the actions of a step to the boards after it: one move per step, or turns of several moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from creditflow.envs.sokoban.rules import state_key
from creditflow.envs.sokoban.turns import MoveTurns
from creditflow.envs.sokoban.vector.arguments import Actions
from creditflow.envs.sokoban.vector.boards import MOVED, PUSHED, Boards, Change, board_texts
from creditflow.envs.sokoban.vector.moves import NOTHING, Moves
from creditflow.envs.sums import sum_in_order

__all__ = ["TURN_KEYS", "OneMove", "Played", "Player", "SeveralMoves", "TurnRecord"]

TURN_KEYS: Final = ("moves", "move_rewards", "move_state_keys", "ignored_words")
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Moved = Callable[[Boards, Change], None]


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What the moves of one turn did, by number of the environment; () after a reset and an invalid action.

    Attributes:
        moves: texts of the executed moves.
        rewards: their rewards.
        ignored: words that were not executed.
        after: the boards and their sides after each round of moves.
    """

    moves: Sequence[tuple[str, ...]]
    rewards: Sequence[tuple[float, ...]]
    ignored: Sequence[int]
    after: Sequence[tuple[npt.NDArray[np.uint8], Ints]] = ()

    def value(self, key: str, which: Ints) -> list[Any]:
        """Return the info ``key`` of the environments with these numbers."""
        if key == "move_state_keys":
            rounds = [board_texts(codes, sides, which) for codes, sides in self.after]
            return [tuple([state_key(texts[position]) for texts in rounds[: len(self.moves[number])]])
                    for position, number in enumerate(which.tolist())]  # fmt: skip
        values = {"moves": self.moves, "move_rewards": self.rewards, "ignored_words": self.ignored}[key]
        return [values[number] for number in which.tolist()]

    def without(self, which: Ints) -> TurnRecord:
        """Return the record with nothing for the environments with these numbers."""
        gone = set(which.tolist())
        moves = [() if n in gone else played for n, played in enumerate(self.moves)]
        rewards = [() if n in gone else earned for n, earned in enumerate(self.rewards)]
        return replace(
            self, moves=moves, rewards=rewards, ignored=[0 if n in gone else i for n, i in enumerate(self.ignored)]
        )


@dataclass(frozen=True, slots=True)
class Played:
    """The results of one step.

    Attributes:
        events: uint8 (N,): what happened (see ``boards.py``).
        rewards: float64 (N,).
        valid: bool (N,): whether the action was valid.
        reasons: why it was not, by number of the environment.
        record: what the moves of a turn did, if it can have several.
    """

    events: npt.NDArray[np.uint8]
    rewards: npt.NDArray[np.float64]
    valid: Mask
    reasons: Mapping[int, str]
    record: TurnRecord | None = None

    def restarted(self, which: Ints) -> Played:
        """Return the results with those of a reset in the environments with these numbers; rewards stay."""
        events, valid = self.events.copy(), self.valid.copy()
        events[which], valid[which] = NOTHING, True
        reasons = self.reasons
        if reasons:
            fresh = set(which.tolist())
            reasons = {number: reason for number, reason in reasons.items() if number not in fresh}
        return Played(events, self.rewards, valid, reasons, self.record and self.record.without(which))


class Player(Protocol):
    """Plays one step on every board."""

    def play(self, boards: Boards, actions: Any, moved: Moved) -> Played:
        """Execute one action on every board; ``moved`` is told of every change.

        Raises:
            ConfigError: actions of the wrong shape or type; nothing has changed.
        """
        ...

    def nothing(self) -> Played:
        """Return the results of a reset."""
        ...


class OneMove:
    """A player for one move per step.

    Args:
        actions: reads the actions.
        moves: makes the moves.
        num_envs: number of environments, N.
    """

    def __init__(self, actions: Actions, moves: Moves, num_envs: int) -> None:
        self._actions, self._moves, self._num_envs = actions, moves, num_envs

    def play(self, boards: Boards, actions: Any, moved: Moved) -> Played:
        """Execute one move on every board (see ``Player``)."""
        numbers, reasons = self._actions.read(actions)
        change = self._moves.make(boards, numbers)
        moved(boards, change)
        rewards = self._moves.rewards(change, boards.on_target == boards.boxes)
        return Played(change.events, rewards, numbers >= 0, reasons)

    def nothing(self) -> Played:
        """Return the results of a reset."""
        return _nothing(self._num_envs)


class SeveralMoves:
    """A player for turns of several moves, which end when the level is solved.

    Args:
        turns: reads a turn.
        actions: checks that there is one text per environment.
        moves: makes the moves.
        texts: texts of the moves by number.
        num_envs: number of environments, N.
        step: reward of an invalid action.
    """

    def __init__(
        self, turns: MoveTurns, actions: Actions, moves: Moves, texts: Sequence[str], num_envs: int, step: float
    ) -> None:
        self._turns, self._actions, self._moves = turns, actions, moves
        self._texts, self._num_envs, self._step = tuple(texts), num_envs, step

    def play(self, boards: Boards, actions: Any, moved: Moved) -> Played:
        """Execute one turn on every board (see ``Player``)."""
        answers, words_given, reasons = self._read(actions)
        moves: list[list[str]] = [[] for _ in answers]
        earned: list[list[float]] = [[] for _ in answers]
        events, after = np.full(self._num_envs, NOTHING, dtype=np.uint8), []
        running = np.array([len(answer) for answer in answers])
        for turn in range(int(running.max())):
            numbers = np.array([answer[turn] if turn < count else -1
                                for answer, count in zip(answers, running.tolist(), strict=True)])  # fmt: skip
            change = self._moves.make(boards, numbers)
            moved(boards, change)
            solved = boards.on_target == boards.boxes
            rewards = self._moves.rewards(change, solved)
            events |= change.events & np.uint8(MOVED | PUSHED)
            after.append((boards.codes, boards.sides))
            for number in np.flatnonzero(numbers >= 0).tolist():
                moves[number].append(self._texts[numbers[number]])
                earned[number].append(float(rewards[number]))
            running[solved] = 0
        totals = [sum_in_order(turn_rewards) if turn_rewards else self._step for turn_rewards in earned]
        ignored = [
            self._turns.ignored(words, len(turn_moves)) for words, turn_moves in zip(words_given, moves, strict=True)
        ]
        record = TurnRecord(
            [tuple(turn_moves) for turn_moves in moves],
            [tuple(turn_rewards) for turn_rewards in earned],
            ignored,
            after,
        )
        valid = np.array([bool(turn_moves) for turn_moves in moves])
        return Played(events, np.array(totals, dtype=np.float64), valid, reasons, record)

    def _read(self, actions: Any) -> tuple[list[tuple[int, ...]], list[int], dict[int, str]]:
        """Return the moves of each turn, the number of words in its text, and the reasons of invalid ones."""
        answers: list[tuple[int, ...]] = []
        words, reasons = [], {}
        for number, text in enumerate(self._actions.texts(actions)):
            answer, reason = self._turns.parse(text)
            if answer is None:
                reasons[number] = reason
            answers.append(answer or ())
            words.append(self._turns.given)
        return answers, words, reasons

    def nothing(self) -> Played:
        """Return the results of a reset."""
        count = self._num_envs
        return replace(_nothing(count), record=TurnRecord([()] * count, [()] * count, [0] * count))


def _nothing(num_envs: int) -> Played:
    events = np.full(num_envs, NOTHING, dtype=np.uint8)
    return Played(events, np.zeros(num_envs), np.ones(num_envs, dtype=np.bool_), {})
