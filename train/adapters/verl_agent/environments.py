"""``make_envs`` for verl-agent's scripts: our environments and credit by changing two lines.

In ``verl/trainer/main_ppo.py``, ``TaskRunner.run``, import this function in place of verl-agent's::

    from creditflow.train.adapters.verl_agent.environments import make_envs

In ``verl/trainer/ppo/ray_trainer.py``, ``RayPPOTrainer.fit``, call the manager in place of ``compute_advantage``::

    batch = self.envs.compute_advantage(

Both were read at verl-agent's commit d0b9724 (15 October 2025). Everything else, the scripts' arguments included, stays:
``env.env_name``, ``env.seed``, ``env.max_steps``, ``env.history_length``, ``env.rollout.n``, the batch sizes and the penalty
of invalid actions mean what they meant. ``+env.creditflow`` (``LoopSettings``) and ``+algorithm.creditflow`` (``SchemeSettings``)
choose other tasks, prompts and schemes.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.parsing import decision_of, make_dialect
from creditflow.agents.prompts import make_prompt, slots_of
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr, unknown_name_error
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.registration import maker
from creditflow.envs.tasks import Task, TaskSource
from creditflow.train.adapters.text_episode import MAX_CHARACTERS, check_completions
from creditflow.train.adapters.verl_agent.advantage import Anchor, PlayedGroup, compute_recorded_advantages
from creditflow.train.rollout.engine import NoGroupError
from creditflow.train.rollout.running import RolloutReport, RunningEpisode, RunningGroup
from creditflow.train.rollout.starting import EpisodeStarter
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Scheme, Semantics
from creditflow.wrappers.credit.bridge import require_plain
from creditflow.wrappers.group_env import GroupEnv

__all__ = [
    "PRESETS",
    "EnvironmentManager",
    "LoopSettings",
    "SchemeSettings",
    "TaskOrder",
    "entry",
    "fork_scheme",
    "given_tasks",
    "loop_settings",
    "make_envs",
    "plain",
]


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """``env.creditflow``: what is played and how it is shown.

    Attributes:
        name: our environment's name; "" derives it from ``env.env_name``.
        options: arguments of the environment, over the preset's.
        panel, valid_panel: "NAME:SPLIT" of training and validation; None takes the preset's, "" the source that the options name.
        valid_options: further arguments of the validation environments, over ``options``.
        invalid_actions: "keep" (an invalid action is a turn), "retry" or "terminate".
        prompt, dialect: template and output format; "" takes the preset's.
        anchor: the text by which verl-agent's own estimators compare states: our "state" key, or the "text" key.
        max_characters: a prompt with more shows fewer past turns; 0 for no limit.
        threads: groups stepped at once, for environments that wait (retrieval servers); 0 steps one after another.
    """

    name: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    panel: str | None = None
    valid_panel: str | None = None
    valid_options: dict[str, Any] = field(default_factory=dict)
    invalid_actions: Literal["keep", "retry", "terminate"] = "keep"
    prompt: str = ""
    dialect: str = ""
    anchor: Literal["state", "text"] = "state"
    max_characters: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        if min(self.max_characters, self.threads) < 0:
            raise ConfigError(
                f"max_characters and threads must be at least 0, got {self.max_characters} and {self.threads}"
            )


@dataclass(frozen=True, kw_only=True)
class SchemeSettings:
    """``algorithm.creditflow``: arguments of ``credit.make``."""

    scheme: str = "gigpo"
    semantics: Semantics = "paper"
    parameters: dict[str, Any] = field(default_factory=dict)


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "alfworld": {
        "panels": "standard-v3", "options": {"reward": "ten", "observation": "raw", "text_key": "observation"},
        "prompt": "think-v1", "dialect": "think",
    },
    "sokoban": {"panels": "paper-6x6-v1", "options": {"reward": "ten", "symbols": "ascii"}, "prompt": "think-v1", "dialect": "think"},
    "webshop": {"panels": "standard-v1", "options": {"preset": "verl_agent", "reward": "ten"}, "prompt": "think-v1", "dialect": "think"},
    "wikisearch": {
        "panels": "standard-v1", "options": {"dialect": "search_r1", "top_k": 3, "metric": "em"}, "prompt": "search-v1", "dialect": "bare",
    },
}  # fmt: skip
_NAMES: Final = {"search": "wikisearch", **{name: name for name in PRESETS}}  # what env.env_name contains -> our name


def entry(config: Any, path: str, default: Any = None) -> Any:
    """The entry of a nested config at a dotted path, whether its levels are mappings or objects."""
    for name in path.split("."):
        config = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        if config is None:
            return default
    return config


def plain(value: Any) -> Any:
    """A config section (OmegaConf's or plain) as plain dicts, lists and values."""
    if isinstance(value, Mapping):
        return {str(name): plain(value[name]) for name in value}
    return [plain(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def loop_settings(config: Any) -> LoopSettings:
    """The manager's settings, with the environment's preset filled in.

    Raises:
        ConfigError: unknown or ill-typed settings, an environment that is not ours, or image observations.
    """
    asked = read_dataclass(LoopSettings, plain(entry(config, "env.creditflow", {})), "env.creditflow")
    called = str(entry(config, "env.env_name", ""))
    name = asked.name or next((ours for fragment, ours in _NAMES.items() if fragment in called.lower()), "")
    if name not in PRESETS:
        raise unknown_name_error("environment (env.env_name, or env.creditflow.name)", asked.name or called, PRESETS)
    if name == "sokoban" and entry(config, "env.sokoban.mode") == "rgb_array":
        raise ConfigError(
            "env.sokoban.mode=rgb_array shows images to a vision model; this manager shows text: set "
            "env.sokoban.mode=tiny_rgb_array, prepare the data with --mode text, and train a text model"
        )
    preset = PRESETS[name]
    return LoopSettings(
        name=name,
        options={**preset["options"], **asked.options},
        panel=f"{preset['panels']}:train" if asked.panel is None else asked.panel,
        valid_panel=f"{preset['panels']}:valid" if asked.valid_panel is None else asked.valid_panel,
        valid_options=asked.valid_options,
        invalid_actions=asked.invalid_actions,
        prompt=asked.prompt or preset["prompt"],
        dialect=asked.dialect or preset["dialect"],
        anchor=asked.anchor,
        max_characters=asked.max_characters,
        threads=asked.threads,
    )


def fork_scheme(config: Any) -> Scheme:
    """The scheme of ``algorithm.creditflow``; without that section, the fork's own estimator in release semantics.

    The penalty of invalid actions is the fork's (``actor.invalid_action_penalty_coef``) unless parameters give one.

    Raises:
        ConfigError: unknown settings, or an estimator that is none of our schemes.
    """
    section = entry(config, "algorithm.creditflow")
    if section is not None:
        asked = read_dataclass(SchemeSettings, plain(section), "algorithm.creditflow")
    else:
        asked = SchemeSettings(**_own_estimator(config))
    scheme = credit.make(asked.scheme, semantics=asked.semantics, **asked.parameters)
    if hasattr(scheme, "invalid_penalty") and "invalid_penalty" not in asked.parameters:
        actor = entry(config, "actor_rollout_ref.actor", {})
        used = entry(actor, "use_invalid_action_penalty", True)
        penalty = float(entry(actor, "invalid_action_penalty_coef", 0.0)) if used else 0.0
        scheme = credit.make(
            asked.scheme, semantics=asked.semantics, **{**asked.parameters, "invalid_penalty": penalty}
        )
    return scheme


def _own_estimator(config: Any) -> dict[str, Any]:
    """Arguments of ``SchemeSettings`` for the estimator that the script names."""
    algorithm = entry(config, "algorithm", {})
    name = str(getattr(value := entry(algorithm, "adv_estimator", ""), "value", value))
    if name in ("grpo", "rloo"):
        scaled = name == "rloo" or entry(algorithm, "norm_adv_by_std_in_grpo", True)
        parameters: dict[str, Any] = {} if scaled else {"outcome_scale": "none"}
    elif name == "gigpo":
        mode = entry(algorithm, "gigpo.mode", "mean_std_norm")
        if mode not in ("mean_norm", "mean_std_norm"):
            raise ConfigError(f"algorithm.gigpo.mode must be 'mean_norm' or 'mean_std_norm', got {short_repr(mode)}")
        scale = "std" if mode == "mean_std_norm" else "none"
        similar = entry(algorithm, "gigpo.enable_similarity", False)
        parameters = {
            "discount": float(entry(algorithm, "gamma", 1.0)),
            "step_weight": float(entry(algorithm, "gigpo.step_advantage_w", 1.0)),
            "outcome_scale": scale,
            "step_scale": scale,
            "similarity": float(entry(algorithm, "gigpo.similarity_thresh", 0.95)) if similar else 0.0,
        }
    else:
        raise ConfigError(
            f"algorithm.adv_estimator={name} is none of gigpo, grpo, rloo: keep one of these, which verl-agent's trainer "
            "accepts, and name the scheme in +algorithm.creditflow.scheme"
        )
    return {"scheme": name, "semantics": "release", "parameters": parameters}


_MAX_REDRAWS: Final = 50  # samples per task before an endless source counts as too small


class TaskOrder:
    """Draws ``count`` different tasks at a time.

    Args:
        source: tasks of the environment.
        count: groups per rollout.
        seed: of the order.
        fixed: the same tasks every time, the first of the source: for validation.

    Raises:
        ConfigError: the source has fewer tasks.
    """

    def __init__(self, source: TaskSource, count: int, seed: int, *, fixed: bool) -> None:
        self._source, self._count, self._fixed = source, count, fixed
        self._rng = np.random.default_rng([seed, 3])
        self._ids = list(source.task_ids())
        if self._ids and len(self._ids) < count:
            raise ConfigError(
                f"{count} groups need as many tasks, the source has {len(self._ids)}: lower data.train_batch_size (or "
                "data.val_batch_size), or name a larger source in env.creditflow"
            )
        self._left: list[str] = []
        self._first: list[Task] = []

    def draw(self) -> list[Task]:
        """The tasks of the next rollout. A finite source is played through in random order, again and again."""
        if self._fixed:
            self._first = self._first or (
                [self._source.get(name) for name in self._ids[: self._count]] if self._ids else self._sample()
            )
            return list(self._first)
        if not self._ids:
            return self._sample()
        names, self._left = self._left[: self._count], self._left[self._count :]
        if len(names) < self._count:  # the next round through the source, without the tasks just taken
            order = [self._ids[i] for i in self._rng.permutation(len(self._ids)).tolist()]
            missing = self._count - len(names)
            fresh = [name for name in order if name not in names][:missing]
            self._left = [name for name in order if name not in fresh]
            names += fresh
        return [self._source.get(name) for name in names]

    def _sample(self) -> list[Task]:
        drawn: dict[str, Task] = {}
        for _ in range(_MAX_REDRAWS * self._count):
            if len(drawn) == self._count:
                break
            task = self._source.sample(self._rng)
            drawn.setdefault(task.task_id, task)
        else:
            raise ConfigError(f"the source gave only {len(drawn)} different tasks for {self._count} groups")
        return list(drawn.values())


def given_tasks(kwargs: Sequence[Any], source: TaskSource, size: int) -> list[Task]:
    """The tasks that a data set names in its column ``env_kwargs``, one per group.

    Args:
        kwargs: per episode ``{"task": JSON text or mapping}`` or ``{"task_id": …}``, or both of one task; equal within a group.
            None counts as missing, as parquet fills columns with it; other keys are not looked at.
        source: tasks of the environment.
        size: episodes per group.

    Raises:
        DataError: an entry without a task, a task that is not that of its id, or different tasks within a group.
    """
    entries = [_entry(i, item) for i, item in enumerate(kwargs)]
    if not entries or len(entries) % size:
        raise DataError(f"env_kwargs has {len(entries)} entries, which are no whole groups of {size}")
    tasks = []
    for start in range(0, len(entries), size):
        same = entries[start : start + size]
        if any(item != same[0] for item in same):
            raise DataError(
                f"env_kwargs {start} to {start + size - 1} are one group of {size} episodes, but name different tasks"
            )
        tasks.append(_task(same[0], source, f"env_kwargs {start}"))
    return tasks


def _task(named: Mapping[str, Any], source: TaskSource, where: str) -> Task:
    if "task" not in named:
        return source.get(str(named["task_id"]))
    content = named["task"]
    task = source.from_content(parse_json(content, where=where) if isinstance(content, str) else content)
    if named.get("task_id", task.task_id) != task.task_id:
        raise DataError(
            f"{where}: the task is {task.task_id!r}, not {short_repr(named['task_id'], 80)}; give one of the two"
        )
    return task


def _entry(i: int, item: Any) -> dict[str, Any]:
    named = (
        {name: plain(item[name]) for name in ("task", "task_id") if item.get(name) is not None}
        if isinstance(item, Mapping)
        else {}
    )
    if not named:
        keys = sorted(map(str, item)) if isinstance(item, Mapping) else short_repr(item)
        raise DataError(
            f"env_kwargs {i} names no task: it needs 'task' (content, as JSON text) or 'task_id', got {keys}; without the "
            "column env_kwargs the manager draws tasks itself"
        )
    return named


NOT_STARTED: Final = "This episode could not be started and ends here."
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Slot:
    """One place in the batch: an episode of a group, None if the group could not start; what its last step gave."""

    played: PlayedGroup
    member: int
    episode: RunningEpisode | None
    task_id: str
    steps: int = 0
    text: str = NOT_STARTED
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return self.episode is not None and self.episode.running


class EnvironmentManager:
    """Plays ``groups`` tasks at a time, ``size`` episodes each.

    Args:
        settings: prompts, dialect, anchors and limits.
        make_group: makes the environments of one group.
        tasks: draws the tasks of each rollout.
        scheme: assigns credit, and says which actions count as invalid.
        window: number of past turns that a prompt shows (``env.history_length``).
        seed: of the environments' own randomness.
        by_type: report success by task type too, for validation.
    """

    def __init__(
        self,
        settings: LoopSettings,
        make_group: Callable[[], GroupEnv],
        tasks: TaskOrder,
        scheme: Scheme,
        *,
        window: int,
        seed: int,
        by_type: bool = False,
    ) -> None:
        if window < 0:
            raise ConfigError(f"env.history_length must be at least 0, got {window}")
        self.settings, self.scheme = settings, scheme
        self._prompt, self._dialect = make_prompt(settings.prompt), make_dialect(settings.dialect)
        self._make_group, self._tasks, self._window, self._seed = make_group, tasks, window, seed
        self._by_type = by_type
        self._envs = [make_group()]
        self._source, self._size = self._envs[0].tasks, len(self._envs[0])
        self._rollouts, self._slots = 0, list[_Slot]()
        self._groups: list[tuple[PlayedGroup, RunningGroup]] = []
        self._pool = ThreadPoolExecutor(settings.threads) if settings.threads else None

    def reset(self, kwargs: Any = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Start the next rollout.

        Args:
            kwargs: the data set's column ``env_kwargs``, if it has one; see ``given_tasks``.

        Returns:
            Observations under "text" (the prompts), "image" (None) and "anchor"; infos per episode.

        Raises:
            NoGroupError: not one group could start.
        """
        self._end_rollout()
        tasks = self._tasks.draw() if kwargs is None else given_tasks(list(kwargs), self._source, self._size)
        while len(self._envs) < len(tasks):
            self._envs.append(self._make_group())
        report = RolloutReport()
        starter = EpisodeStarter(self._seed, self._rollouts, 0, report, iter(()))
        self._rollouts += 1
        started = self._over_groups(lambda pair: starter.start_group(*pair), list(zip(self._envs, tasks, strict=False)))
        if not any(group.episodes for group in started):
            raise NoGroupError(f"no group could start; the first error was: {report.errors[0]}")
        for error in report.errors:
            _log.warning("a group could not start: %s", error)
        self._groups, self._slots = [], []
        for task, group in zip(tasks, started, strict=True):
            played = PlayedGroup(group.group_id if group.episodes else task.task_id)
            self._groups.append((played, group))
            episodes = group.episodes or [None] * self._size
            self._slots += [self._slot(played, i, episode, task) for i, episode in enumerate(episodes)]
        return self._observations(), [dict(slot.info) for slot in self._slots]

    def step(
        self, text_actions: Sequence[str]
    ) -> tuple[dict[str, Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Parse one completion per episode and step those that run; the others keep their last observation.

        Returns:
            Observations; float32 (B,) rewards; bool (B,) whether each episode is over; infos.

        Raises:
            EpisodeError: no rollout is running.
            ConfigError: another number of completions than episodes, or completions that are not texts.
        """
        if not self._slots:
            raise EpisodeError("no rollout is running: call reset() before step()")
        check_completions(text_actions, len(self._slots))
        batches = [(self._slots[at : at + self._size], text_actions[at : at + self._size])
                   for at in range(0, len(self._slots), self._size)]  # fmt: skip
        rewards = self._over_groups(
            lambda pair: [self._act(slot, text) for slot, text in zip(*pair, strict=True)], batches
        )
        done = np.array([not slot.running for slot in self._slots])
        flat = np.array([reward for group in rewards for reward in group], np.float32)
        return self._observations(), flat, done, [dict(slot.info) for slot in self._slots]

    def build_text_obs(self) -> list[str]:
        """The present prompt of every episode."""
        return [slot.text for slot in self._slots]

    def success_evaluator(self, *_: Any, **played: Any) -> dict[str, NDArray[np.float64]]:
        """End the rollout; success and score per episode, and for validation success by task type.

        Args:
            **played: ``total_infos`` and ``total_batch_list``, as the loop passes them: infos and rows by episode.
        """
        self._end_rollout()
        metrics: dict[str, list[float]] = defaultdict(list)
        for infos, rows in zip(played["total_infos"], played["total_batch_list"], strict=True):
            last = max((t for t, row in enumerate(rows) if row["active_masks"]), default=0)
            info = infos[last]
            metrics["success_rate"].append(float(info["won"]))
            metrics["score (beside success_rate)"].append(float(info["task_score"]))  # logged only under such a name
            if self._by_type and info.get("task_type"):
                metrics[f"{info['task_type']}_success_rate"].append(float(info["won"]))
        return {name: np.array(values) for name, values in metrics.items()}

    def compute_advantage(self, data: Any, **_: Any) -> Any:
        """In place of the trainer's function of this name: write ``advantages`` and ``returns`` into the batch."""
        self._end_rollout()
        data.batch["advantages"], data.batch["returns"] = compute_recorded_advantages(data, scheme=self.scheme)
        return data

    def close(self) -> None:
        """Drop all environments."""
        self._end_rollout()
        self._envs, self._slots = [], []
        if self._pool is not None:
            self._pool.shutdown()

    def _over_groups(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """``work`` on the parts of every group, in order; in threads if the settings say so, never two in one group."""
        return list(self._pool.map(work, items) if self._pool is not None else map(work, items))

    def _slot(self, played: PlayedGroup, member: int, episode: RunningEpisode | None, task: Task) -> _Slot:
        slot = _Slot(played, member, episode, task.task_id)
        self._show(slot, valid=True)
        return slot

    def _act(self, slot: _Slot, text: str) -> float:
        """Step one episode; its reward, 0 if it is over or its environment fails."""
        episode, slot.steps = slot.episode, slot.steps + 1
        if episode is None or not episode.running:
            slot.info = {**slot.info, "is_action_valid": np.array(True), "tool_calling": 0}
            return 0.0
        recorder = episode.recorder
        decision = decision_of(self._dialect, text, MAX_CHARACTERS)
        error = episode.step(decision)
        if error is not None:
            _log.warning("%s: %s: %s", recorder.identity["trajectory_id"], type(error).__name__, error)
            self._show(slot, valid=True)
            return 0.0
        flag = "action_parsed" if getattr(self.scheme, "invalid", "") == "unparsed" else "action_valid"
        self._show(slot, valid=not decision.invalid_reason and bool(episode.info[flag]))
        return recorder.turns[-1].reward

    def _show(self, slot: _Slot, *, valid: bool) -> None:
        """Set the prompt and the info that the loop gets next."""
        episode = slot.episode
        info = {} if episode is None else episode.info
        searches = len(episode.recorder.turns[-1].queries) if episode is not None and episode.recorder.turns else 0
        revealing = episode is None or episode.recorder.base.actions_reveal_answer
        slot.info = {
            "is_action_valid": np.array(valid),
            "won": bool(info.get("success", False)),
            "task_score": float(info.get("score", 0.0)),
            "task_id": slot.task_id,
            "task_type": str(info.get("task_type", "")),
            "tool_calling": searches,
            "admissible_commands": [] if revealing else list(info.get("admissible_actions", ())),
        }
        if episode is not None and slot.running:
            slot.text = self._text(episode)

    def _text(self, episode: RunningEpisode) -> str:
        """The prompt of the next turn, with as many past turns as the limit allows."""
        view, limit = episode.view, self.settings.max_characters
        text = ""
        for window in range(self._window, -1, -1):
            slots = slots_of(self._prompt, view, window)
            system = self._prompt.fill("system", slots)
            user = self._prompt.fill("windowed" if view.turns else "first", slots)
            text = f"{system}\n\n{user}" if system else user
            if not limit or len(text) <= limit:
                break
        return text

    def _observations(self) -> dict[str, Any]:
        anchors = [Anchor(self._key(slot), slot.played, member=slot.member, turn=slot.steps) for slot in self._slots]
        return {"text": self.build_text_obs(), "image": None, "anchor": anchors}

    def _key(self, slot: _Slot) -> str:
        """The state by which verl-agent's own estimators compare rows."""
        if slot.episode is None:
            return f"{slot.played.name}/{slot.member} #start"  # a state of its own
        return str(slot.episode.info["state_key" if self.settings.anchor == "state" else "text_key"])

    def _end_rollout(self) -> None:
        """Record the groups; episodes that still run were cut by the loop's own limit."""
        for played, group in self._groups:
            for episode in group.episodes:
                if episode.running:
                    episode.stop("env_limit")
            played.group, played.over = (group.record("") if group.episodes else None), True
        self._groups = []


VALIDATION_SEED = 1000  # added to env.seed for validation, as verl-agent does


def make_envs(config: Any) -> tuple[EnvironmentManager, EnvironmentManager]:
    """The managers of training and validation.

    Args:
        config: verl-agent's complete config.

    Raises:
        ConfigError: settings that are unknown, of the wrong type, or not possible here.
    """
    settings, scheme = loop_settings(config), fork_scheme(config)
    require_plain(scheme)
    size = _count(config, "env.rollout.n", least=0) or 1
    seed = _count(config, "env.seed", least=0)
    training = _manager(config, settings, scheme, size=size, seed=seed, validates=False)
    return training, _manager(config, settings, scheme, size=1, seed=seed + VALIDATION_SEED, validates=True)


def _manager(
    config: Any, settings: LoopSettings, scheme: Scheme, *, size: int, seed: int, validates: bool
) -> EnvironmentManager:
    panel = settings.valid_panel if validates else settings.panel
    options = {
        "max_steps": _count(config, "env.max_steps"),
        **({"panel": panel} if panel else {}),
        **settings.options,
        **(settings.valid_options if validates else {}),
    }
    make = _group_factory(settings, size, options)
    groups = _count(config, "data.val_batch_size" if validates else "data.train_batch_size")
    tasks = TaskOrder(make().tasks, groups, seed, fixed=validates)
    window = _count(config, "env.history_length", least=0)
    return EnvironmentManager(settings, make, tasks, scheme, window=window, seed=seed, by_type=validates)


def _group_factory(settings: LoopSettings, size: int, options: dict[str, Any]) -> Callable[[], GroupEnv]:
    def make() -> GroupEnv:
        return GroupEnv(
            maker(settings.name, options), size=size, invalid_actions=settings.invalid_actions, texts=True, policy="lm"
        )

    return make


def _count(config: Any, path: str, least: int = 1) -> int:
    value = entry(config, path)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{path} must be an integer of at least {least}, got {short_repr(value)}")
    return value
