"""Several moves in one turn: the answer ``right right up`` is one action of up to m moves.

Moves are made in order until the answer ends, the level is solved or the episode's limit of moves is reached. The turn is one step: it counts one towards the step
limit, its reward is the sum of its moves' rewards, and ``info`` has what each move did.

What does not fit the format is decided by ``moves_policy``:

| | an answer of more than m moves | a word that is no move |
| --- | --- | --- |
| "strict" | invalid as a whole | invalid as a whole |
| "prefix" | its first m moves are made | the moves before it are made; invalid if there are none |

Words that were not executed are counted in ``info["ignored_words"]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

from creditflow.envs.core import Outcome
from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.sokoban.actions import Vocabulary, quoted_action
from creditflow.envs.spaces import TextSpace
from creditflow.envs.sums import sum_in_order

__all__ = ["MAX_MOVES", "MOVES_POLICIES", "MoveTurns"]

MOVES_POLICIES: Final = ("strict", "prefix")
MAX_MOVES: Final = 64  # per turn


class MoveTurns:
    """Parses and makes the turns of one environment, and reports what the last turn did.

    Args:
        vocabulary: the moves.
        moves_per_turn: m, 1 to 64; with 1 there are no turns to parse or record.
        policy: one of ``MOVES_POLICIES``.
        action_mode: the environment's, which must be "text".
        max_moves: limit of the moves of an episode; 0 for none.

    Attributes:
        made: number of moves of the episode, counted if they are limited.
        several: whether a turn can have more than one move.
        space: all texts; samples are turns of one and of two moves.
        given: number of words in the text that was parsed last.

    Raises:
        ConfigError: an invalid argument.
    """

    def __init__(
        self, vocabulary: Vocabulary, moves_per_turn: Any, policy: Any, action_mode: str, max_moves: Any = 0
    ) -> None:
        if type(moves_per_turn) is not int or not 1 <= moves_per_turn <= MAX_MOVES:
            raise ConfigError(
                f"moves_per_turn must be an integer from 1 to {MAX_MOVES}, got {short_repr(moves_per_turn)}"
            )
        if policy not in MOVES_POLICIES:
            raise unknown_name_error("moves_policy", str(policy), MOVES_POLICIES)
        if moves_per_turn == 1 and policy != "strict":
            raise ConfigError(
                f"moves_policy={policy!r} needs turns of several moves; raise moves_per_turn, or leave it out"
            )
        if type(max_moves) is not int or max_moves < 0 or (max_moves and moves_per_turn == 1):
            raise ConfigError(
                f"max_moves, which limits the moves of turns of several moves, must be a positive integer, or 0 for no limit; got {short_repr(max_moves)} "
                f"with moves_per_turn={moves_per_turn}"
            )
        self.max_moves, self.made = max_moves, 0
        self.limit, self._policy, self._texts = moves_per_turn, policy, vocabulary.texts
        self.several = moves_per_turn > 1
        if self.several and action_mode != "text":
            raise ConfigError(
                f"moves_per_turn={moves_per_turn} needs action_mode='text', in which a turn is written; got {short_repr(action_mode)}"
            )
        pairs = [" ".join(pair) for pair in product(self._texts, repeat=2)]
        self.space = TextSpace((*self._texts, *pairs))
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        self._words = self._texts[0].count(" ") + 1  # of each move
        # a longer answer is not even split: actions come from language models
        self._max_characters = 4 * max(map(len, self._texts)) * MAX_MOVES
        self._expected = f"expected at most {moves_per_turn} of: {', '.join(self._texts)}; separated by spaces"
        self.clear()

    def clear(self) -> None:
        """Forget the last turn."""
        self._moves: list[str] = []
        self._rewards: list[float] = []
        self._keys: list[str] = []
        self.given = 0

    @property
    def left(self) -> int:
        """Moves that are left to the episode; -1 without a limit."""
        return max(0, self.max_moves - self.made) if self.max_moves else -1

    def restore(self, made: int) -> None:
        """Go on with an episode that has made so many moves."""
        self.made = made if self.max_moves else 0

    def parse(self, action: Any) -> tuple[tuple[int, ...] | None, str]:
        """Return the numbers of the moves, or None and the reason."""
        self.clear()
        if not isinstance(action, str):
            return None, f"an action is a string, got {type(action).__name__}; {self._expected}"
        if len(action) > self._max_characters:
            return None, f"{quoted_action(action)} is too long; {self._expected}"
        words = action.casefold().split()
        size = self._words
        moves = [" ".join(words[start : start + size]) for start in range(0, len(words), size)]
        numbers = [self._numbers.get(move) for move in moves]
        wrong = next((position for position, number in enumerate(numbers) if number is None), len(numbers))
        self.given = len(words)
        if self._policy == "strict":
            if wrong < len(numbers):
                return None, f"{quoted_action(moves[wrong])}, number {wrong + 1}, is not a move; {self._expected}"
            if len(numbers) > self.limit:
                return None, f"{len(numbers)} moves are too many; {self._expected}"
        accepted = tuple(number for number in numbers[: min(wrong, self.limit)] if number is not None)
        return (accepted, "") if accepted else (None, f"{quoted_action(action)} begins with no move; {self._expected}")

    def play(self, numbers: Sequence[int], move: Callable[[int], Outcome], key: Callable[[], str]) -> Outcome:
        """Make the moves in order, until the level is solved or no move is left.

        Args:
            numbers: numbers of the moves.
            move: makes one move.
            key: the key of the state that it led to.
        """
        effective = terminated = False
        for number in numbers[: self.left] if self.max_moves else numbers:
            reward, terminated, changed, _ = move(number)
            effective |= changed
            self._moves.append(self._texts[number])
            self._rewards.append(reward)
            self._keys.append(key())
            if terminated:
                break
        if self.max_moves:
            self.made += len(self._moves)
        return Outcome(sum_in_order(self._rewards), terminated, effective, self.left == 0)

    def ignored(self, given: int, made: int) -> int:
        """Return the number of words that were not executed, of ``given`` words that made so many moves; 0 if they made none."""
        return given - made * self._words if made else 0

    def info(self) -> dict[str, Any]:
        """Return what the last turn did: empty after a reset and an invalid action."""
        return {
            "moves": tuple(self._moves),
            "move_rewards": tuple(self._rewards),
            "move_state_keys": tuple(self._keys),
            "ignored_words": self.ignored(self.given, len(self._moves)),
            **({"moves_left": self.left} if self.max_moves else {}),
        }
