"""Whatever plays an episode records a decision in the same way: validity, its reason, thought, response and tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from creditflow.agents.base import Decision, TurnTokens, View
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.tasks import Task
from creditflow.train.adapters.text_episode import EpisodeConfig, TextEpisode
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.play import continue_from, play_group
from creditflow.train.rollout.replay import ReplayedState
from creditflow.train.settings.schema import EnvConfig
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.trajectory import Trajectory

LEVEL = "########\n#@    .#\n#    $ #\n#      #\n########"
DIALECT = "verl_agent:sokoban"  # executes an action even where the format is wrong
COMPLETIONS = {
    "a wall": "<think>bump</think><action>up</action>",
    "valid": "<think>go</think><action>right</action>",
    "admissible, but without a thought": "<action>down</action>",
    "not a word of the environment": "<think>fly</think><action>fly</action>",
    "no action": "<think>hm</think>",
    "nothing": "",
    "several": "<think>a</think><action>left</action><action>right</action>",
    "another script": "<think>右</think><action>right</action>",
}


class Scripted:
    """Writes the completions in order, with tokens."""

    name = "scripted"

    def act(self, views: Sequence[View]) -> list[Decision]:
        return [self.decide(len(view.turns)) for view in views]

    def decide(self, turn: int) -> Decision:
        text = list(COMPLETIONS.values())[turn]
        parsed = make_dialect(DIALECT).parse(text)
        reason = "" if parsed.valid else parsed.reason
        tokens = TurnTokens(np.array([turn], np.int32), np.array([1, 2], np.int32), np.array([-0.5, -0.25], np.float32))
        return Decision(parsed.action, parsed.thought, text, reason, tokens)


def options() -> dict[str, Any]:
    return {"level": LEVEL, "max_steps": len(COMPLETIONS)}


def make() -> GroupEnv:
    return GroupEnv("sokoban", size=2, **options())


def task() -> Task:
    [task_id] = make().tasks.task_ids()
    return make().tasks.get(task_id)


def by_group() -> Trajectory:
    return play_group(make(), Scripted(), task()).trajectories[0]


def by_engine() -> Trajectory:
    return RolloutEngine(make).play(Scripted(), [task()], seed=0)[0].trajectories[0]


def by_engine_with_threads() -> Trajectory:
    return RolloutEngine(make, threads=2).play(Scripted(), [task()], seed=0)[0].trajectories[0]


def by_continuation() -> Trajectory:
    env = make()
    content = dict(task().content)
    [(observation, info), *_] = env.reset(task=content)
    start = ReplayedState(env.members[0].base.get_state(), observation, info)
    rng = np.random.default_rng(0)
    return continue_from(env.members, Scripted(), [start], (), rng, options={"task": content})[0].trajectory()


def by_messages() -> Trajectory:
    play = EpisodeConfig(env=EnvConfig(name="sokoban", options=options()), prompting=PromptingConfig(dialect=DIALECT))
    episode = TextEpisode(play, task().content, group_id="g")
    for text in COMPLETIONS.values():
        episode.step(text)
    return episode.trajectory


@pytest.mark.parametrize(
    "driver", [by_engine, by_engine_with_threads, by_continuation, by_messages], ids=lambda driver: driver.__name__
)
def test_every_driver_records_every_kind_of_decision_alike(driver: Callable[[], Trajectory]) -> None:
    expected, trajectory = by_group(), driver()
    assert trajectory.turns == expected.turns
    assert (trajectory.stop_reason, trajectory.success) == (expected.stop_reason, expected.success)


def test_the_record_says_which_turns_are_invalid_and_why() -> None:
    turns = dict(zip(COMPLETIONS, by_group().turns, strict=True))
    executed = turns["admissible, but without a thought"]
    assert (executed.action, executed.parsed, executed.admissible, executed.effective) == ("down", False, True, True)
    assert (
        executed.invalid_reason == make_dialect(DIALECT).parse(COMPLETIONS["admissible, but without a thought"]).reason
    )
    assert turns["valid"].valid
    assert turns["valid"].invalid_reason == ""
    assert turns["a wall"].valid
    assert not turns["a wall"].effective
    for name in ("not a word of the environment", "no action", "nothing"):
        assert not turns[name].valid, name
        assert turns[name].invalid_reason, name


@pytest.mark.parametrize("driver", [by_group, by_engine, by_engine_with_threads, by_continuation])
def test_every_driver_of_an_agent_keeps_its_tokens(driver: Callable[[], Trajectory]) -> None:
    tokens = driver().tokens
    assert tokens is not None
    assert tokens.ids.tolist() == [token for turn in range(len(COMPLETIONS)) for token in (turn, 1, 2)]


def test_a_decision_to_stop_ends_the_episode_without_a_turn() -> None:
    class Stops(Scripted):
        def decide(self, turn: int) -> Decision:
            return replace(super().decide(turn), stop="token_limit" if turn == 2 else None)

    expected = play_group(make(), Stops(), task()).trajectories[0]
    assert (len(expected.turns), expected.stop_reason) == (2, "token_limit")
    played = RolloutEngine(make).play(Stops(), [task()], seed=0)[0].trajectories[0]
    assert (played.turns, played.stop_reason) == (expected.turns, expected.stop_reason)


def test_an_error_of_an_environment_is_raised_to_the_caller_of_play_group() -> None:
    env = make()
    env.members[1].base._apply = lambda *_: 1 / 0  # type: ignore[assignment, method-assign]  # an environment that breaks
    with pytest.raises(ZeroDivisionError):
        play_group(env, Scripted(), task())
