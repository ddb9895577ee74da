"""rLLM's engine plays our environments, its trainer's functions group and collect; credit as in our own log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.servers.chat_server import random_player
from helpers.trainers.failing import fail_every_third_step
from helpers.trainers.replayed import assert_same_credit, replayed

from creditflow import credit
from creditflow.envs.errors import TrajectoryError
from creditflow.envs.reading.json_text import parse_json
from creditflow.train.adapters.contract import ContractCase, OnTokens, check_end
from creditflow.train.adapters.text_episode import EpisodeConfig
from creditflow.train.rollout.engine import Budget
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import make_group, read_record

pytestmark = pytest.mark.rllm


def grouped(episodes: list[Any], scheme: Any, **others: Any) -> list[Any]:
    """Groups by rLLM's own transformation, with our hook."""
    from rllm.trainer.algorithms.config import TransformConfig
    from rllm.trainer.algorithms.transform import transform_episodes_to_trajectory_groups

    from creditflow.train.adapters.rllm import CreditHook

    hook = CreditHook(scheme, **others)
    groups, _ = transform_episodes_to_trajectory_groups(episodes, TransformConfig(), traj_grouping_hook=hook)
    return list(groups)


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
def test_credit_of_its_steps_is_that_of_our_own_log_of_the_same_episodes(
    token_play: Callable[..., Any], config: EpisodeConfig, scheme: str
) -> None:
    from rllm.trainer.algorithms.advantage import collect_reward_and_advantage_from_trajectory_groups
    from rllm.trainer.algorithms.config import AlgorithmConfig

    episodes, sampled = token_play(random_player(1))
    assert {episode.is_correct for episode in episodes} == {True, False}
    order = np.random.default_rng(0).permutation(len(episodes))
    groups = grouped([episodes[i] for i in order], credit.make(scheme))
    assert len(groups) == 3
    assert {len(group.trajectories) for group in groups} == {6}
    wanted = []
    for group in groups:
        assert group.group_role == "player"
        members = group.trajectories
        theirs = make_group(
            group.group_id, [read_record(member.metadata["creditflow"], member.uid) for member in members]
        )
        content = parse_json(members[0].task["task"], where="task")
        ours = replayed(config, content, [[step.model_response for step in member.steps] for member in members])
        assert_same_credit(ours, theirs, credit.make(scheme))
        expected = credit.make(scheme).assign(ours)
        for member, numbers, kept in zip(members, expected.advantages, expected.loss_mask, strict=True):
            wanted += [
                [x] * len(s.response_ids) for s, x in zip(member.steps, np.where(kept, numbers, 0.0), strict=True)
            ]
    steps = [step for group in groups for member in group.trajectories for step in member.steps]
    assert sorted(step.response_ids for step in steps) == sorted(sampled)
    metrics = collect_reward_and_advantage_from_trajectory_groups(
        groups, AlgorithmConfig(use_precomputed_advantage=True)
    )
    assert [step.advantage for step in steps] == wanted  # as rLLM's backends read them
    assert metrics["advantage/player/mean"] == pytest.approx(np.mean(np.concatenate(wanted)))


def test_the_end_passes_the_contract() -> None:
    from rllm.types import Step, Trajectory

    from creditflow.train.adapters.rllm import CreditHook

    def end(case: ContractCase, scheme: Scheme) -> OnTokens:
        groups, members = [], []
        for group in case.groups:
            played = []
            for episode in group.trajectories:
                steps = [
                    Step(response_ids=list(range(sampled)), model_response=turn.response, reward=turn.reward)
                    for turn, (_, sampled) in zip(episode.turns, case.counts(episode), strict=True)
                ]
                played.append(Trajectory(name="player", steps=steps, metadata={"creditflow": case.record(episode)}))
            groups.append(SimpleNamespace(group_id=group.group_id, trajectories=played))
            members += played
        CreditHook(scheme, group=lambda *_: groups)([], None)
        return [[step.advantage for step in member.steps] for member in members]

    check_end(end)


def test_without_token_ids_a_step_has_one_number(chat_play: Callable[..., list[Any]]) -> None:
    groups = grouped(chat_play(random_player(2)), credit.make("gigpo"))
    steps = [step for group in groups for member in group.trajectories for step in member.steps]
    assert all(isinstance(step.advantage, float) for step in steps)
    assert any(step.advantage for step in steps)


def test_a_budget_of_turns_ends_an_episode(chat_play: Callable[..., list[Any]], config: EpisodeConfig) -> None:
    play = replace(config, budget=Budget(turns=2))
    [episode, *_] = chat_play(lambda _messages: "<action>wait</action>", size=2, play=play)
    assert [len(one.steps) for one in episode.trajectories] == [2]
    assert episode.termination_reason.value == "max_turns_exceeded"


def test_a_conversation_that_grows_too_long_ends_as_truncated(engine_play: Callable[..., list[Any]]) -> None:
    from rllm.engine.rollout.rollout_engine import ModelOutput, RolloutEngine
    from rllm.workflows.workflow import TerminationEvent, TerminationReason

    class Short(RolloutEngine):
        async def get_model_response(self, messages: list[dict[str, Any]], **_: Any) -> Any:
            if len(messages) > 3:
                raise TerminationEvent(TerminationReason.MAX_PROMPT_LENGTH_EXCEEDED)
            return ModelOutput(text="?", content="?", prompt_ids=[1], completion_ids=[2, 3], logprobs=[-1.0, -1.0])

    episodes = engine_play(Short(), size=2)
    for episode in episodes:
        played, _ = read_record(episode.trajectories[0].metadata["creditflow"], "x")
        assert (len(played.turns), played.stop_reason) == (2, "token_limit")
    groups = grouped(episodes, credit.make("grpo"))
    assert {tuple(step.advantage) for g in groups for m in g.trajectories for step in m.steps} == {(0.0, 0.0)}


def test_a_completion_at_which_the_environment_failed_has_zero_credit_and_the_batch_its_own(
    token_play: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_every_third_step(monkeypatch)
    episodes, _ = token_play(random_player(1))
    groups = grouped(episodes, credit.make("gigpo"))
    steps = [one.steps for group in groups for one in group.trajectories]
    played = [read_record(m.metadata["creditflow"], m.uid)[0] for group in groups for m in group.trajectories]
    failed = [own for own, one in zip(steps, played, strict=True) if one.stop_reason == "env_error"]
    assert failed
    assert not any(any(own[-1].advantage) for own in failed)
    assert all(len(step.advantage) == len(step.response_ids) for own in steps for step in own)
    assert any(any(step.advantage) for own in steps for step in own)


def test_ids_of_rows_with_colons_which_rllm_would_mix_are_refused(
    chat_play: Callable[..., list[Any]], config: EpisodeConfig
) -> None:
    from creditflow.train.adapters.rllm import task_rows

    rows = [{**row, "id": f"sokoban:{i}"} for i, row in enumerate(task_rows(config))]
    [episode, *_] = chat_play(random_player(0), rows=rows, size=1, raise_on_error=False)
    assert "ids of rows must not contain one" in episode.info["error"]["error_message"]


def test_validation_by_single_episodes_gives_zero_and_no_error(chat_play: Callable[..., list[Any]]) -> None:
    groups = grouped(chat_play(random_player(3), size=1), credit.make("gigpo"))
    assert {step.advantage for group in groups for step in group.trajectories[0].steps} == {0.0}


def test_lost_rewritten_and_damaged_steps_are_refused_and_nothing_is_written(
    chat_play: Callable[..., list[Any]],
) -> None:
    def broken(change: Callable[[Any], None], match: str) -> None:
        episodes = chat_play(random_player(4), size=2)
        played = [one.trajectories[0] for one in episodes]
        change(next(one for one in played if len(one.steps) > 1))  # rLLM itself leaves out one without steps
        with pytest.raises(TrajectoryError, match=match):
            grouped(episodes, credit.make("grpo"))
        assert all(step.advantage is None for one in episodes for step in one.trajectories[0].steps)

    broken(lambda one: one.steps.pop(), "turns and . sampled completions")
    broken(
        lambda one: setattr(one.steps[0], "model_response", "another"), "step 0 has another completion than its record"
    )
    broken(lambda one: one.metadata.clear(), "has no record under 'creditflow'")
    broken(lambda one: one.metadata.update(creditflow="{"), "JSON")


def test_other_workflows_are_read_from_their_steps() -> None:
    from rllm.types import Episode, Step, Trajectory

    from creditflow.train.adapters.rllm import read_steps

    def episode(i: int, path: list[str], actions: list[str], reward: float) -> Any:
        steps = [
            Step(observation=state, model_response=action, response_ids=list(range(t + 1)))
            for t, (state, action) in enumerate(zip(path, actions, strict=True))
        ]
        steps[-1].reward = reward
        return Episode(
            id=f"task:{i}", task="task", trajectories=[Trajectory(name="solver", task="t", steps=steps, reward=reward)]
        )

    read = read_steps(success=lambda one: (one.reward or 0.0) > 0.0)
    episodes = [
        episode(0, ["hall", "study"], ["left", "open"], 1.0), episode(1, ["hall", "study"], ["left", "wait"], 0.0)
    ]  # fmt: skip
    [group] = grouped(episodes, credit.make("gigpo"), role="solver", read=read)
    won, lost = (one.steps for one in group.trajectories)
    assert len(won[1].advantage) == 2
    assert won[1].advantage[0] > lost[1].advantage[0]
    broken = [episode(0, ["a"], ["b"], float("nan")), episode(1, ["a"], ["b"], 1.0)]
    with pytest.raises(TrajectoryError, match="turn 0: reward must be finite, got nan"):
        grouped(broken, credit.make("gigpo"), role="solver", read=read)
    untouched = grouped(episodes, credit.make("gigpo"))  # of another role: rLLM's own estimator assigns them
    assert len(untouched) == 1
