"""``creditflow/ALFWorld-v0``: household tasks in text, byte-equal to TextWorld's engine and faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from creditflow.envs.alfworld.dialect import DIALECTS, NOTHING_HAPPENS
from creditflow.envs.alfworld.engines import make_backend
from creditflow.envs.alfworld.game_files.reading import fields_from_file
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.render import OBSERVATIONS, TEXT_KEYS, EpisodeHistory
from creditflow.envs.alfworld.replies import rejection_reason, true_facts
from creditflow.envs.alfworld.snapshot import game_of_task, read_snapshot, write_snapshot
from creditflow.envs.alfworld.tasks import FolderTasks, open_tasks
from creditflow.envs.alfworld.world import World
from creditflow.envs.core import AgentEnv, Outcome
from creditflow.envs.errors import DataError, EpisodeError, check_name
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import Task
from creditflow.envs.text.frame import FRAMES_PER_SECOND, RENDER_MODES, check_render_mode, rendered

__all__ = ["ALFWorldEnv"]

REWARDS: Final[dict[str, float]] = {"sparse": 1.0, "ten": 10.0}


class ALFWorldEnv(AgentEnv[str, str, str]):
    """Find objects in a house, clean, heat or cool them, and put them where the task requires.

    All arguments are JSON values, so ``env.spec`` round-trips. Without arguments, every reset samples a new house from
    the generator.

    Args:
        panel: "<panel>:<split>" of the embedded panels, such as "standard-v3:valid"; "released-v1" and "released-v2"
            (splits "train", "valid_seen", "valid_unseen") list released games by content and need ``data_path`` too.
        data_path: instead, a folder of released games, such as "$ALFWORLD_DATA" (expanded; read only when given).
        game: instead, one game: the path of a ``.tw-pddl`` file, its fields, or a game's content.
        split: "train" (default), "valid_seen" or "valid_unseen", for the generator and ``data_path``.
        task_types: only these of the six task types, for the generator and ``data_path``. The generator samples the types as
            often as the release has them, or these equally often.
        observation: "raw" (the engine's reply, byte for byte) or "augmented" (adds location, held object and its
            properties, moved objects; takes no step).
        text_key: "observation", "graphgpo", "rewardflow" or "rewardflow_paper": the state as that method sees it.
        syntax: None keeps each game's own dialect; "move" or "put" (``put X in/on Y``, of ALFWorld ≤ 0.3) replaces it.
        reward: "sparse" (1 when won) or "ten" (10 when won).
        max_steps: the episode's limit.
        backend: "native" or "textworld" (the real engine; needs ``creditflow[alfworld]``).
        oracle_nodes: most states that one search of the oracle expands.

    Info has, besides the common keys, ``task_type: str``, ``won: bool`` and ``goal_condition_success_rate: float`` (see
    ``World.conditions``). ``score`` is 1.0 when won, else 0.0, as in the original. The reply to a
    rejected command is "Nothing happens."; ``invalid_reason`` explains it.

    Raises:
        ConfigError: a wrong argument.
        DataError: a malformed game file.
        MissingExtraError: ``backend="textworld"`` without its packages.
    """

    env_name: ClassVar[str] = "alfworld"
    observation_is_reply: ClassVar[bool] = True
    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": FRAMES_PER_SECOND}

    def __init__(
        self,
        *,
        panel: str | None = None,
        data_path: str | None = None,
        game: str | Mapping[str, Any] | None = None,
        split: str | None = None,
        task_types: Sequence[str] | None = None,
        observation: str = "raw",
        text_key: str = "observation",
        syntax: str | None = None,
        reward: str = "sparse",
        max_steps: int = 50,
        backend: str = "native",
        oracle_nodes: int = 50_000,
        render_mode: str | None = None,
    ) -> None:
        check_name("observation", observation, OBSERVATIONS)
        check_name("text_key", text_key, TEXT_KEYS)
        if syntax is not None:
            check_name("syntax", syntax, DIALECTS)
        check_name("reward", reward, REWARDS)
        check_render_mode(render_mode)
        self._backend = make_backend(backend)
        self._uses_textworld = backend == "textworld"
        tasks = open_tasks(panel=panel, data_path=data_path, game=game, split=split, task_types=task_types)
        super().__init__(tasks=tasks, max_steps=max_steps)
        self.render_mode = render_mode
        self.observation_space = TextSpace()
        self.action_space = TextSpace(("look", "inventory", "help"))
        self._view, self._key = OBSERVATIONS[observation], TEXT_KEYS[text_key]
        self._syntax, self._win = syntax, REWARDS[reward]
        self._game_file = game
        self._oracle = ALFWorldOracle(oracle_nodes)
        self._history = EpisodeHistory()
        self._won = False

    @property
    def world(self) -> World:
        """The true facts of the present state.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        if self._task is None:
            raise EpisodeError("there is no state yet: call reset() first")
        return self._backend.world

    # -- AgentEnv ----------------------------------------------------------------------------------------------------
    @property
    def observation_memory(self) -> str:
        """The moved objects, which augmented observations mention; the engine's replies depend on the state alone."""
        return "" if self._view is OBSERVATIONS["raw"] else repr(list(self._history.moves.items()))

    def _start(self, task: Task) -> None:
        game = game_of_task(task, self._syntax)
        self._backend.start(game, self._fields(task) if self._uses_textworld else None)
        self._history = EpisodeHistory()
        if self._uses_textworld:
            self._history.reply = self._backend.intro()
        self._won = self._backend.world.won()

    def _parse(self, action: Any) -> tuple[str | None, str]:
        if not isinstance(action, str):
            return None, f"an action is a string, got {type(action).__name__}"
        command = action.strip()
        return (command, "") if command else (None, "the command is empty")

    def _rejection_reason(self, action: str) -> str:
        return "" if action in self._backend.admissible().by_text else rejection_reason(self._backend.world, action)

    def _apply(self, action: str) -> Outcome:
        parsed = self._backend.admissible().by_text[action]
        reply, effective = self._backend.do(action)
        self._history.record(parsed, reply)
        self._won = self._backend.world.won()
        return Outcome(self._win if self._won else 0.0, self._won, effective)

    def _invalid_action_reward(self) -> float:
        self._history.record_rejected(NOTHING_HAPPENS)
        return 0.0

    def _observe(self) -> str:
        return self._view(self._backend.world, self._history)

    def _keys(self) -> tuple[str, str]:
        world = self._backend.world
        return world.key(), (self._key or self._view)(world, self._history)

    def _admissible(self) -> tuple[str, ...]:
        return self._backend.admissible().commands

    def _progress(self) -> tuple[bool, float]:
        return (True, 1.0) if self._won else (False, 0.0)

    def _extra_info(self) -> dict[str, Any]:
        met, every = self._backend.world.conditions()
        return {
            "task_type": self._backend.world.game.goal.task_type,
            "won": self._won,
            "goal_condition_success_rate": met / every,
        }

    # -- snapshots, oracle -------------------------------------------------------------------------------------------
    def get_state(self) -> str:
        """Return the snapshot of the present state: JSON text with the house, its changes, the history and the step count.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        return write_snapshot(self.world, self._history.to_json(), self._backend.past, self.elapsed_steps)

    def set_state(self, snapshot: str) -> tuple[str, dict[str, Any]]:
        """Restore a snapshot of any ``ALFWorldEnv`` with the same ``syntax``; return observation and info as ``reset`` does.

        Raises:
            DataError: not a snapshot, not a state of its game, or (``backend="textworld"``) not made by that backend.
        """
        state = read_snapshot(snapshot)
        history = EpisodeHistory.from_json(state.game, state.history)
        if state.game.syntax != self._syntax:
            raise DataError(
                f"the snapshot was taken with syntax={state.game.syntax!r}, this environment has {self._syntax!r}: texts "
                "and commands would not fit"
            )
        self._begin(state.game.task, elapsed=state.steps)
        self._backend.restore(state.world, state.past)
        self._history, self._won = history, self._backend.world.won()
        self._over = self._won or state.steps >= self.max_steps
        return self._observe(), self._info(True, True, False, "")

    @property
    def oracle(self) -> ALFWorldOracle:
        """Exact distances, values and optimal actions of snapshots."""
        return self._oracle

    def walkthrough(self) -> tuple[str, ...]:
        """A shortest solution from the present state; () if it is won or cannot be won."""
        return self._oracle.solution(self.world) or ()

    def facts(self) -> tuple[str, ...]:
        """The true facts that can change, sorted, with the names that observations use."""
        return true_facts(self.world)

    def _fields(self, task: Task) -> Mapping[str, Any] | None:
        """Fields of a task's original file, for the engine that reads files; None without one, or in another dialect."""
        if self._syntax is not None:
            return None
        # a reset option may have named another game than the argument
        if self._game_file is not None and self.tasks.task_ids() == (task.task_id,):
            if isinstance(self._game_file, str):
                return fields_from_file(Path(self._game_file).expanduser())
            return self._game_file if "pddl_problem" in self._game_file else None
        path = self.tasks.path_of(task.task_id) if isinstance(self.tasks, FolderTasks) else None
        return None if path is None else fields_from_file(path)

    def render(self) -> Any:
        """Return the augmented observation, as a text or a frame."""
        return rendered(OBSERVATIONS["augmented"](self.world, self._history), self.render_mode)
