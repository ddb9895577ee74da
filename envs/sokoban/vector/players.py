"""From the actions of a step to the boards after it: one move per step, or turns of several moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.sokoban.actions import Vocabulary
from creditflow.envs.sokoban.rewards import Rewards
from creditflow.envs.sokoban.rules import state_key
from creditflow.envs.sokoban.turns import MoveTurns
from creditflow.envs.sokoban.vector.boards import GAINS, MOVED, PUSHED, Boards, Change, board_texts
from creditflow.envs.sums import sum_in_order

__all__ = [
    "NOTHING",
    "TURN_KEYS",
    "Actions",
    "Moves",
    "OneMove",
    "Played",
    "Player",
    "SeveralMoves",
    "TurnRecord",
    "check_supported",
    "checked_count",
    "checked_mask",
    "reset_mode",
]

NOTHING = 4  # the event of a step that changed nothing
PUSH = 512  # see Boards.move
Ints = npt.NDArray[np.int64]


class Moves:
    """Makes the moves of action numbers; -1 stands for no move (an invalid action).

    Args:
        vocabulary: the actions.
        rewards: the reward preset.
    """

    def __init__(self, vocabulary: Vocabulary, rewards: Rewards) -> None:
        self._directions = np.array([*(direction for direction, _ in vocabulary.moves), -1])  # the last for number -1
        pushes = [push * PUSH for _, push in vocabulary.moves]
        self._push: Ints | None = None if all(pushes) else np.array([*pushes, 0])
        self.rejected = rewards.rejected
        self._rewards = np.array([rewards.of(int(gain), bool(solved)) for solved in (0, 1) for gain in GAINS])
        self._columns, self._offsets = 0, self._directions

    def make(self, boards: Boards, numbers: Ints) -> Change:
        """Move on every board by the action of this number, int64 (N,)."""
        columns = boards.shape[1]
        if columns != self._columns:
            self._columns, by_direction = columns, np.array([-columns, columns, -1, 1, 0])  # the last for direction -1
            self._offsets = by_direction[self._directions]
        return boards.move(self._offsets.take(numbers), PUSH if self._push is None else self._push.take(numbers))

    def rewards(self, change: Change, solved: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Return the rewards of a step, float64 (N,); ``solved``: whether every box is on a target now."""
        rewards: npt.NDArray[np.float64] = self._rewards.take(change.events | solved.astype(np.uint8) << 4)
        return rewards


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
    """Return the numbers of the environments selected by ``options["reset_mask"]``, or all numbers if there is no mask.

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


TURN_KEYS: Final = ("moves", "move_rewards", "move_state_keys", "ignored_words")
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
        """Execute one action on every board; ``moved`` receives every change.

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
        rewards[numbers < 0] = self._moves.rejected
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
