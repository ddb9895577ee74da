"""verifiers plays our environments: its own environment class, interception server and eval client; credit as in our own log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.servers.chat_server import random_player
from helpers.trainers.failing import fail_every_third_step
from helpers.trainers.replayed import assert_same_credit, replayed

from creditflow import credit
from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.text_episode import EpisodeConfig
from creditflow.train.settings.schema import EnvConfig

pytestmark = pytest.mark.verifiers


def completions(trace: Any) -> list[str]:
    return [message.content for message in trace.assistant_messages]


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
def test_credit_of_its_traces_is_that_of_our_own_log_of_the_same_episodes(
    play: Callable[..., list[Any]], options: dict[str, Any], scheme: str
) -> None:
    from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes

    episodes = play(random_player(1))
    assert all(episode.ok for episode in episodes), [episode.last_error for episode in episodes]
    groups = credit_episodes(episodes, credit.make(scheme))
    assert len(groups) == 3
    traces = [episode.traces[0] for episode in episodes]
    assert {trace.metrics["success"] for trace in traces} == {0.0, 1.0}
    config = EpisodeConfig(env=EnvConfig(name="sokoban", options=options))
    for g, group in enumerate(groups):
        members = traces[6 * g : 6 * (g + 1)]
        ours = replayed(config, members[0].task.data.content, [completions(trace) for trace in members])
        assert_same_credit(ours, group, credit.make(scheme))
        expected = credit.make(scheme).assign(ours)
        for trace, numbers, kept in zip(members, expected.advantages, expected.loss_mask, strict=True):
            assert trace.info[ADVANTAGES] == np.where(kept, numbers, 0.0).tolist()
            assert trace.reward == sum(turn.reward for turn in ours.trajectories[members.index(trace)].turns)


def test_a_trace_survives_its_own_record_and_keeps_its_credit(play: Callable[..., list[Any]]) -> None:
    from verifiers.v1.episode import WireEpisode

    from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes

    episodes = play(random_player(2), count=1)
    credit_episodes(episodes, credit.make("gigpo"))
    again = [WireEpisode.model_validate(episode.to_record()) for episode in episodes]
    first = [episode.traces[0].info.pop(ADVANTAGES) for episode in again]
    credit_episodes(again, credit.make("gigpo"))
    assert [episode.traces[0].info[ADVANTAGES] for episode in again] == first


def test_an_episode_that_its_seat_cuts_ends_as_truncated(play: Callable[..., list[Any]]) -> None:
    from creditflow.train.adapters.verifiers.credit import credit_episodes

    episodes = play(lambda _messages: "<action>wait</action>", count=1, seat={"max_turns": 2})
    [group] = credit_episodes(episodes, credit.make("grpo"))
    assert {(len(one.turns), one.stop_reason) for one in group.trajectories} == {(2, "token_limit")}


def test_a_completion_at_which_the_environment_failed_has_zero_credit_and_the_batch_its_own(
    play: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes

    fail_every_third_step(monkeypatch)
    episodes = play(random_player(1), count=1)
    [group] = credit_episodes(episodes, credit.make("gigpo"))
    failed = [one.stop_reason == "env_error" for one in group.trajectories]
    assert any(failed)
    for one, episode, gone in zip(group.trajectories, episodes, failed, strict=True):
        numbers = episode.traces[0].info[ADVANTAGES]
        assert len(numbers) == len(completions(episode.traces[0])) == len(one.turns) + gone
        assert not gone or numbers[-1] == 0.0


def test_an_unreachable_model_gives_no_credit_and_a_clear_error(play: Callable[..., list[Any]]) -> None:
    from verifiers.v1.clients import EvalClientConfig

    from creditflow.train.adapters.verifiers.credit import credit_episodes

    episodes = play(None, client=EvalClientConfig(base_url="http://127.0.0.1:9/v1"), count=1, size=2)
    assert not any(episode.ok for episode in episodes)
    with pytest.raises(TrajectoryError, match="no finished trace of the agent 'player' among 2 episodes"):
        credit_episodes(episodes, credit.make("grpo"))


def test_another_environment_of_ours_plays_too(play: Callable[..., list[Any]]) -> None:
    from creditflow.train.adapters.verifiers.credit import credit_episodes

    episodes = play(
        random_player(3), env="alfworld", options={"max_steps": 4}, panel="standard-v1:valid", count=1, size=3
    )
    assert all(episode.ok for episode in episodes), [episode.last_error for episode in episodes]
    [group] = credit_episodes(episodes, credit.make("graphgpo"))
    assert {len(one.turns) for one in group.trajectories} == {4}


def test_wrong_settings_are_named(play: Callable[..., list[Any]]) -> None:
    with pytest.raises(Exception, match="prompting"):
        play(random_player(0), prompting={"promt": "think-v1"})
