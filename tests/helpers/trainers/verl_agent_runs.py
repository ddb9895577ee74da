"""verl-agent's config with our environments, and the same episodes played by our own engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from helpers.trainers.verl_agent_loop import Rows, play

from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.scripted import NoisyExpert
from creditflow.train.adapters.verl_agent.environments import EnvironmentManager, loop_settings, make_envs
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group

GROUPS, SIZE, STEPS = 3, 4, 7
ENVS = {"sokoban": "Sokoban", "alfworld": "alfworld/AlfredTWEnv", "webshop": "Webshop", "wikisearch": "search"}
MALFORMED = (
    "",
    "up",
    "<action>up</action>",
    "<think>a</think><action>b</action> c",
    "<think>x</think><action>fly</action>",
)


def config_of(env: str = "sokoban", *, scheme: str = "", penalty: float = 0.1, **creditflow: Any) -> dict[str, Any]:
    """verl-agent's config as far as it is read; panels are our small ones."""
    small = {"panel": "small-v1:train", "valid_panel": "small-v1:valid"} if env == "sokoban" else {}
    algorithm = {"adv_estimator": "gigpo", "gamma": 0.95, "gigpo": {"mode": "mean_norm", "step_advantage_w": 1.0}}
    return {
        "env": {
            "env_name": ENVS[env], "seed": 3, "max_steps": STEPS, "history_length": 2, "rollout": {"n": SIZE},
            "creditflow": {**small, **creditflow},
        },
        "data": {"train_batch_size": GROUPS, "val_batch_size": 2},
        "algorithm": {**algorithm, **({"creditflow": {"scheme": scheme}} if scheme else {})},
        "actor_rollout_ref": {"actor": {"use_invalid_action_penalty": True, "invalid_action_penalty_coef": penalty}},
    }  # fmt: skip


class Writer:
    """A noisy expert that writes completions, one of five malformed, and keeps them by group and replica."""

    name = "writer"

    def __init__(self, dialect: str) -> None:
        self.expert, self.dialect = NoisyExpert(0.4), make_dialect(dialect)
        self.wrote: dict[int, list[str]] = {}

    def act(self, views: Sequence[View]) -> list[Decision]:
        out = []
        for view, chosen in zip(views, self.expert.act(views), strict=True):
            text = self.dialect.write(chosen.action, "because")
            if view.rng.random() < 0.2:
                text = MALFORMED[int(view.rng.integers(len(MALFORMED)))]
            parsed = self.dialect.parse(text)
            self.wrote.setdefault(id(view.env), []).append(text)
            reason = "" if parsed.valid else parsed.reason
            out.append(Decision(parsed.action, parsed.thought, text, reason))
        return out


def by_our_engine(config: dict[str, Any]) -> tuple[list[Group], list[list[str]]]:
    """The groups of the first rollout, played by our own engine, and the completions of each episode."""
    settings = loop_settings(config)
    options = {"panel": settings.panel, "max_steps": STEPS, **settings.options}
    made: list[GroupEnv] = []

    def make() -> GroupEnv:
        made.append(GroupEnv(settings.name, size=SIZE, texts=True, policy="lm", **options))
        return made[-1]

    drawn = make_envs(config)[0]._tasks.draw()
    writer = Writer(settings.dialect)
    groups = RolloutEngine(make).play(writer, drawn, seed=config["env"]["seed"])
    return groups, [writer.wrote.get(id(member.base), []) for env in made for member in env.members]


def replayed(manager: EnvironmentManager, texts: list[list[str]]) -> Rows:
    """A rollout of these completions; what is asked of finished episodes is nonsense."""

    def answer(i: int, step: int, *_: Any) -> str:
        return texts[i][step] if step < len(texts[i]) else "nonsense"

    return play(manager, answer, size=SIZE, max_steps=STEPS)


def penalty_of(scheme: Any) -> float:
    return float(getattr(scheme, "invalid_penalty", 0.0))


def moves(directions: Any) -> Callable[..., str]:
    """Completions from an array of directions (0 to 3) by episode and step."""

    def answer(i: int, step: int, *_: Any) -> str:
        return f"<think>t</think><action>{('up', 'down', 'left', 'right')[directions[i][step]]}</action>"

    return answer
