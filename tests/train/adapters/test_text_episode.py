"""Episodes played by messages, and what other trainers' episodes become: equal to our engine's, complete, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.masking import successes_alone
from helpers.episodes.strategies import groups
from helpers.servers.chat_server import random_player
from helpers.trainers.replayed import assert_same_credit, replayed
from hypothesis import given

from creditflow import credit
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, TrajectoryError
from creditflow.train.adapters.gem.credit import step_info
from creditflow.train.adapters.text_episode import (
    MAX_CHARACTERS,
    EpisodeConfig,
    TextEpisode,
    panel_tasks,
    task_content,
    with_thought,
)
from creditflow.train.rollout.engine import Budget
from creditflow.train.settings.schema import EnvConfig
from creditflow.wrappers.credit.bridge import (
    assign_turns,
    make_episode,
    make_group,
    per_completion,
    read_record,
    require_plain,
)
from creditflow.wrappers.records.group import Group

SOKOBAN = EpisodeConfig(env=EnvConfig(name="sokoban", options={"panel": "small-v1:train", "max_steps": 6}))
ALFWORLD = EpisodeConfig(env=EnvConfig(name="alfworld", options={"panel": "standard-v1:valid", "max_steps": 6}))


def written(
    play: EpisodeConfig, content: Any, model: Callable[[list[dict[str, str]]], str]
) -> tuple[TextEpisode, list[str]]:
    """An episode that this model plays to its end, and its completions."""
    episode, texts = TextEpisode(play, content, group_id="g"), list[str]()
    messages = list(episode.messages)
    while not episode.done:
        texts.append(model(messages))
        reply = episode.step(texts[-1])
        messages = [*messages, {"role": "user", "content": reply.text}]
    return episode, texts


@pytest.mark.parametrize("play", [SOKOBAN, ALFWORLD], ids=["sokoban", "alfworld"])
@pytest.mark.parametrize("scheme", ["gigpo", "graphgpo"])
def test_messages_play_what_our_engine_plays(play: EpisodeConfig, scheme: str) -> None:
    content = panel_tasks(play.env, count=1)[0].content
    model = random_player(0)
    episodes = [written(play, content, model) for _ in range(4)]
    records = [read_record(episode.record(), str(i)) for i, (episode, _) in enumerate(episodes)]
    ours = replayed(play, content, [texts for _, texts in episodes])
    assert_same_credit(ours, make_group("g", records), credit.make(scheme))


def test_an_unparsed_completion_is_an_invalid_turn_with_its_reason_and_a_huge_one_too() -> None:
    episode = TextEpisode(SOKOBAN, panel_tasks(SOKOBAN.env, count=1)[0].content, group_id="g")
    assert "refused" in episode.step("up").text
    episode.step("<think>" + "a" * MAX_CHARACTERS + "</think><action>up</action>")
    episode.stop()
    assert episode.trajectory.stop_reason == "token_limit"
    first, second = episode.trajectory.turns
    assert not first.parsed and not second.parsed
    assert "<action>" in first.invalid_reason
    assert second.response == ""
    assert f"more than {MAX_CHARACTERS}" in second.invalid_reason


def test_limits_errors_and_calls_out_of_order() -> None:
    nothing: Any = None  # what a trainer may send
    wrong_rows: list[Any] = [{"no": "task"}, "text"]  # what a row may hold
    content = panel_tasks(SOKOBAN.env, count=1)[0].content
    episode = TextEpisode(replace(SOKOBAN, budget=Budget(turns=1)), content, group_id="g")
    with pytest.raises(EpisodeError, match="has not ended"):
        episode.record()
    with pytest.raises(DataError, match="must be a text, got None"):
        episode.step(nothing)
    assert episode.step("?").done
    assert episode.trajectory.stop_reason == "env_limit"
    episode.stop("env_error")
    assert episode.trajectory.stop_reason == "env_limit"
    with pytest.raises(EpisodeError, match="has ended"):
        episode.step("?")
    with pytest.raises(ConfigError, match=r"instead of budget\.tokens"):
        TextEpisode(replace(SOKOBAN, budget=Budget(tokens=9)), content, group_id="g")
    with pytest.raises(ConfigError, match="windowed history"):
        TextEpisode(replace(SOKOBAN, prompting=PromptingConfig(history="window")), content, group_id="g")
    for wrong in wrong_rows:
        with pytest.raises(DataError):
            TextEpisode(SOKOBAN, wrong, group_id="g")
    with pytest.raises(ConfigError, match="has an endless task source"):
        panel_tasks(EnvConfig(name="sokoban", options={"generator": {}}))


def test_an_environment_that_fails_ends_its_episode_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    episode = TextEpisode(SOKOBAN, panel_tasks(SOKOBAN.env, count=1)[0].content, group_id="g")

    def broken(_action: Any) -> Any:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(episode._recorder, "step", broken)
    assert episode.step("<think></think><action>up</action>").done
    assert episode.trajectory.stop_reason == "env_error"


def test_a_step_that_failed_in_the_environment_is_no_valid_action(monkeypatch: pytest.MonkeyPatch) -> None:
    episode = TextEpisode(SOKOBAN, panel_tasks(SOKOBAN.env, count=1)[0].content, group_id="g")
    episode.step(episode.write("up"))
    assert step_info(episode)["is_action_valid"]

    def broken(_action: Any) -> Any:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(episode._recorder, "step", broken)
    episode.step("<think></think><action>up</action>")
    after = step_info(episode)
    assert not after["is_action_valid"]
    assert read_record(after["creditflow"], "x")[0].stop_reason == "env_error"


def test_members_of_a_group_have_seeds_of_their_own_and_all_documents_that_any_of_them_saw() -> None:
    search = EpisodeConfig(
        env=EnvConfig(name="wikisearch"), prompting=PromptingConfig(prompt="search-v1", dialect="think")
    )
    content = panel_tasks(search.env, panel="standard-v1:valid", count=1)[0].content
    played = []
    for replica, query in enumerate(list(content["entities"])[:2]):
        episode = TextEpisode(search, content, group_id="g", replica=replica)
        episode.step(f"<think>?</think><action>search: {query}</action>")
        episode.stop()
        played.append(read_record(episode.record(), str(replica)))
    group = make_group("again", played)
    assert len({one.seed for one in group.trajectories}) == 2
    assert [one.replica for one in group.trajectories] == [0, 1]
    assert group.task == {**content, "documents": {**played[0][1]["documents"], **played[1][1]["documents"]}}
    assert played[0][1]["documents"].keys() != played[1][1]["documents"].keys()
    damages: list[Any] = [None, [], "x", 5]
    for damaged in damages:
        with pytest.raises(TrajectoryError, match="episode '0': 'documents' of its task"):
            make_group("again", [(played[0][0], {**played[0][1], "documents": damaged}), played[1]])


def test_a_panel_takes_the_place_of_the_source_that_the_options_name() -> None:
    level = EnvConfig(name="sokoban", options={"level": "#####\n#@$.#\n#####", "max_steps": 4})
    assert len(panel_tasks(level)) == 1
    panel = panel_tasks(level, panel="small-v1:train", count=3)
    assert [task.task_id for task in panel] == [task.task_id for task in panel_tasks(SOKOBAN.env)[:3]]


def test_turns_that_the_scheme_leaves_out_of_the_loss_have_no_credit() -> None:
    def episode(name: str, won: bool) -> Any:
        return make_episode(name, task_id="t", states=["s"], actions=["a"], rewards=[float(won)], ended=won), {}

    group = make_group("g", [episode("a", True), episode("b", False)])
    assert all(one.any() for one in assign_turns([group], credit.make("gigpo"))[0])
    [(won, lost)] = assign_turns([group], successes_alone())
    assert won.all()
    assert not lost.any()


@given(groups(min_size=2, max_size=4, min_turns=1, max_turns=5))
def test_every_completion_has_its_turns_number(group: Group) -> None:
    scheme = credit.make("gigpo")
    [numbers] = assign_turns([group], scheme)
    expected = scheme.assign(group)
    for member, per_turn, wanted, kept in zip(
        group.trajectories, numbers, expected.advantages, expected.loss_mask, strict=True
    ):
        assert np.array_equal(per_turn, np.where(kept, wanted, 0.0))
        turns = len(member.turns)
        assert per_completion(member, per_turn, turns) == per_turn.tolist()
        if member.stop_reason == "env_error":  # a completion at which the environment failed is no turn
            assert per_completion(member, per_turn, turns + 1) == [*per_turn.tolist(), 0.0]
        else:
            with pytest.raises(TrajectoryError, match="was one lost, added, cut"):
                per_completion(member, per_turn, turns + 1)
        for wrong in (turns + 2, turns - 1):
            with pytest.raises(TrajectoryError, match="was one lost, added, cut"):
                per_completion(member, per_turn, wrong)


def test_a_group_of_one_has_no_credit() -> None:
    played = make_episode("a", task_id="t", states=["s", "t"], actions=["a", "b"], rewards=[0.0, 1.0], ended=True)
    group = make_group("g", [(played, {})], alone="keep")
    for name in ("gigpo", "graphgpo", "rewardflow"):
        [[per_turn]] = assign_turns([group], credit.make(name))
        assert per_turn.tolist() == [0.0, 0.0]


ROWS = ({"task": {"xsb": "#@$.#"}}, {"task": '{"xsb": "#@$.#"}', "task_id": "a"})


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_its_task_as_an_object_or_as_text(row: Any) -> None:
    assert task_content(row) == {"xsb": "#@$.#"}


@pytest.mark.parametrize("row", [None, {}, {"task": None}, {"task": "[1]"}, {"tasks": {}}, {"task": "{"}])
def test_a_row_without_a_task_is_an_error(row: Any) -> None:
    with pytest.raises(DataError, match=r"data build verl|JSON"):
        task_content(row)


@pytest.mark.parametrize(
    ("thought", "content", "text"),
    [("why", "up", "<think>why</think>up"), ("why", "<think>why</think>up", "<think>why</think>up"), (None, "up", "up"),
     ("", None, ""), ("why", None, "<think>why</think>")],
)  # fmt: skip
def test_a_thought_that_was_taken_apart_is_put_back(thought: str | None, content: str | None, text: str) -> None:
    assert with_thought(thought, content) == text


def test_episodes_of_other_environments_share_states_by_their_texts() -> None:
    def episode(name: str, last: str, won: bool) -> Any:
        rewards = [0.0, float(won)]
        states = ["hall", "study"]
        return make_episode(name, task_id="t", states=states, actions=["left", last], rewards=rewards, ended=won), {}

    group = make_group("t", [episode("a", "open", True), episode("b", "wait", False)])
    a, b = group.trajectories
    assert [turn.state_key for turn in a.turns] == [turn.state_key for turn in b.turns]
    assert a.final_state_key != b.final_state_key
    [(won, lost)] = assign_turns([group], credit.make("gigpo"))
    assert won[1] > lost[1]


def test_broken_episodes_groups_and_schemes_are_refused_by_name() -> None:
    def plain(**changes: Any) -> Any:
        values = {"task_id": "t", "states": ["s"], "actions": ["a"], "rewards": [0.0], "ended": False}
        return make_episode("x", **{**values, **changes})

    for changes, match in (
        ({"rewards": [float("nan")]}, "turn 0: reward must be finite, got nan"),
        ({"rewards": [10**400]}, "turn 0: reward must be finite"),
        ({"rewards": []}, "0 rewards need 0 or 1 states"),
        ({"actions": [], "states": [], "rewards": []}, "at least one turn"),
        ({"states": ["a", "b", "c"]}, "got 3 states"),
        ({"score": 2.0}, "score must lie in"),
    ):
        with pytest.raises(TrajectoryError, match=match):
            plain(**changes)
    for record in (None, "", 3):
        with pytest.raises(TrajectoryError, match="episode 'x' has no record under 'creditflow'"):
            read_record(record, "x")
    with pytest.raises(TrajectoryError, match="group 'g' has 1 episode: credit compares"):
        make_group("g", [(plain(), {})])
    assert len(make_group("g", [(plain(), {})], alone="keep")) == 1
    with pytest.raises(TrajectoryError, match="has 0 episodes"):
        make_group("g", [], alone="keep")
    with pytest.raises(ConfigError, match="which annotators write"):
        require_plain(credit.make("ppo_gae"))


def test_a_panel_replaces_the_source_of_an_environments_options() -> None:
    sources: list[tuple[str, str, dict[str, Any]]] = [
        ("sokoban", "small-v1:train", {"generator": {"size": [6, 6]}}), ("sokoban", "small-v1:train", {"levels": "x"}),
        ("wikisearch", "standard-v1:test", {"world": {"articles": 300, "questions": 4, "seed": 3}}),
        ("alfworld", "standard-v3:valid", {"game": "x"}),
    ]  # fmt: skip
    for name, panel, options in sources:
        found = panel_tasks(EnvConfig(name=name, options=options), panel=panel, count=3)
        assert found == panel_tasks(EnvConfig(name=name, options={"panel": panel}), count=3)
        assert len(found) == 3


def test_a_negative_number_of_tasks_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="a number of tasks"):
        panel_tasks(SOKOBAN.env, count=-1)
