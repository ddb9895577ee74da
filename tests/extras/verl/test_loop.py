"""The agent loop under verl's own worker: its requests, its output, and the columns of the batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.verl_parts import Server, random_server

from creditflow.envs.errors import DataError
from creditflow.train.adapters.verl.record import FIELD, EpisodeRecord

pytestmark = pytest.mark.verl


@pytest.fixture
def tokenizer(model_folder: Path) -> Any:
    from creditflow.agents.language_model.pretrained import open_tokenizer

    return open_tokenizer(model_folder)


def records(batch: Any) -> list[EpisodeRecord]:
    return [EpisodeRecord.decode(text) for text in batch.non_tensor_batch[FIELD]]


def whole(batch: Any, i: int) -> list[int]:
    """All ids of a row, without padding."""
    kept: list[int] = batch.batch["input_ids"][i][batch.batch["attention_mask"][i].bool()].tolist()
    return kept


def test_every_completion_continues_exactly_the_ids_of_its_row(play: Callable[..., Any], tokenizer: Any) -> None:
    server = random_server(tokenizer)
    batch = play(server)
    asked: dict[str, list[list[int]]] = {}
    for request, prompt, _ in server.asked:
        asked.setdefault(request, []).append(prompt)
    rows = [whole(batch, i) for i in range(len(batch))]
    assert len(asked) == len(rows) == 8
    for prompts in asked.values():
        assert any(all(row[: len(prompt)] == prompt for prompt in prompts) for row in rows)


def test_the_mask_is_one_on_completions_and_their_logprobs_are_the_servers(
    play: Callable[..., Any], tokenizer: Any
) -> None:
    batch = play(random_server(tokenizer))
    for i, record in enumerate(records(batch)):
        mask, logprobs = batch.batch["response_mask"][i], batch.batch["rollout_log_probs"][i]
        starts = np.flatnonzero(np.diff(np.concatenate([[0], mask.numpy()])) == 1)
        assert len(starts) == len(record.trajectory.turns)
        for start, (a, b) in zip(starts, zip(record.turn_offsets, record.turn_offsets[1:], strict=False), strict=True):
            wrote = int(mask[a:b].sum())
            assert a <= start < b
            assert mask[b - wrote : b].all()
            assert logprobs[b - wrote : b].tolist() == [-0.25 * (k + 1) for k in range(wrote)]
        assert not logprobs[mask == 0].any()


def test_the_records_are_the_episodes_that_were_played(play: Callable[..., Any], tokenizer: Any) -> None:
    batch = play(random_server(tokenizer))
    for i, record in enumerate(records(batch)):
        played = record.trajectory
        text = tokenizer.decode(whole(batch, i))
        assert [turn.action for turn in played.turns if turn.parsed]
        for turn in played.turns:
            assert turn.action in text
            assert turn.parsed == (" " not in turn.action)
        assert batch.non_tensor_batch["__num_turns__"][i] == 2 * len(played.turns)
        assert batch.batch["rm_scores"][i].sum().item() == pytest.approx(played.episode_return)
        assert batch.non_tensor_batch["success"][i] == played.success
    replicas = {(record.trajectory.group_id, record.trajectory.replica) for record in records(batch)}
    assert replicas == {(f"uid{g}", r) for g in range(2) for r in range(4)}


def test_verl_gets_the_range_of_weight_versions_of_all_turns(play: Callable[..., Any], tokenizer: Any) -> None:
    server = random_server(tokenizer)
    batch = play(server)
    lows, highs = batch.non_tensor_batch["min_global_steps"], batch.non_tensor_batch["max_global_steps"]
    assert min(lows) == 1
    assert max(highs) == len(server.asked)
    assert all(low <= high for low, high in zip(lows, highs, strict=True))


def test_an_episode_ends_before_it_exceeds_the_response_length(
    play: Callable[..., Any], config_of: Callable[..., Any], tokenizer: Any
) -> None:
    batch = play(random_server(tokenizer), config=config_of("actor_rollout_ref.rollout.response_length=40"))
    reasons = {record.trajectory.stop_reason for record in records(batch)}
    assert "token_limit" in reasons
    assert batch.batch["responses"].shape[1] == 40
    assert all(record.turn_offsets[-1] <= 40 for record in records(batch))


def test_a_prompt_that_does_not_fit_is_one_masked_token(
    play: Callable[..., Any], config_of: Callable[..., Any], tokenizer: Any
) -> None:
    batch = play(random_server(tokenizer), config=config_of("actor_rollout_ref.rollout.prompt_length=8"))
    assert not batch.batch["response_mask"].any()
    assert {record.trajectory.stop_reason for record in records(batch)} == {"token_limit"}
    assert all(not record.trajectory.turns for record in records(batch))
    assert set(batch.non_tensor_batch["min_global_steps"]) == {0}  # verl's metrics need a number


def test_budgets_end_episodes(play: Callable[..., Any], config_of: Callable[..., Any], tokenizer: Any) -> None:
    batch = play(random_server(tokenizer), config=config_of(budget={"turns": 2}))
    assert {len(record.trajectory.turns) for record in records(batch)} <= {1, 2}


def test_without_logprobs_of_the_server_the_batch_has_none(
    play: Callable[..., Any], config_of: Callable[..., Any], tokenizer: Any
) -> None:
    config = config_of("actor_rollout_ref.rollout.calculate_log_probs=false")
    assert "rollout_log_probs" not in play(random_server(tokenizer), config=config).batch


def test_an_environment_that_fails_marks_its_episode_and_no_other(
    play: Callable[..., Any], tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow.wrappers.recorder import Recorder

    step = Recorder.step

    def fails(self: Recorder, action: Any) -> Any:
        if self.identity["replica"] == 1 and len(self.turns) == 1:
            raise OSError("the retrieval server is gone")
        return step(self, action)

    monkeypatch.setattr(Recorder, "step", fails)
    played = [record.trajectory for record in records(play(random_server(tokenizer)))]
    assert {one.replica for one in played if one.stop_reason == "env_error"} <= {1}
    assert any(one.stop_reason == "env_error" and len(one.turns) == 1 for one in played)


@pytest.mark.parametrize("lost", [{1}, {0, 1, 2, 3}])
def test_an_environment_that_fails_to_start_marks_its_episode_and_no_other(
    lost: set[int], play: Callable[..., Any], tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow import credit
    from creditflow.train.adapters.verl.trainer import assign_advantages
    from creditflow.wrappers.recorder import Recorder

    reset = Recorder.reset

    def fails(self: Recorder, **options: Any) -> Any:
        if self._names["group_id"] == "uid0" and self._names["replica"] in lost:
            raise OSError("the game server is gone")
        return reset(self, **options)

    monkeypatch.setattr(Recorder, "reset", fails)
    batch = play(random_server(tokenizer))
    played = [record.trajectory for record in records(batch)]
    assert {(one.group_id, one.replica) for one in played if one.stop_reason == "env_error"} == {
        ("uid0", replica) for replica in lost
    }
    assert len({one.task_id for one in played}) == 2
    for one, mask in zip(played, batch.batch["response_mask"], strict=True):
        assert bool(one.turns) == bool(mask.any()) == (one.stop_reason != "env_error")
    assign_advantages(batch, credit.make("graphgpo"), size=4)
    none = ~batch.batch["response_mask"].bool()
    assert not batch.batch["advantages"][none].any()


def test_threads_play_the_same_episodes(
    play: Callable[..., Any], config_of: Callable[..., Any], tokenizer: Any
) -> None:
    always = [*tokenizer.encode("right", add_special_tokens=False), tokenizer.eos_token_id]
    plain = records(play(Server(lambda *_: (always, None))))
    threaded = records(play(Server(lambda *_: (always, None)), config=config_of(threads=True)))
    assert [one.trajectory for one in plain] == [one.trajectory for one in threaded]


def test_a_server_that_returns_nothing_is_an_error(play: Callable[..., Any]) -> None:
    with pytest.raises(DataError, match="the server returned no token"):
        play(Server(lambda *_: ([], None)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompting": {"prompt": "places-v1", "history": "windowed"}}, "did you mean 'window'"),
        ({"env": {"nam": "sokoban"}}, "did you mean 'name'"),
    ],
)
def test_wrong_settings_are_named(
    settings: dict[str, Any], message: str, config_of: Callable[..., Any], play: Callable[..., Any]
) -> None:
    from hydra.errors import InstantiationException

    with pytest.raises(InstantiationException, match=message):
        play(Server(lambda *_: ([], None)), config=config_of(**settings))


def test_a_row_without_task_is_rejected_with_the_command_that_writes_one(
    config_of: Callable[..., Any], tokenizer: Any
) -> None:
    import asyncio

    from verl.experimental.agent_loop.agent_loop import DictConfigWrap

    from creditflow.train.adapters.verl.loop import CreditAgentLoop

    config = config_of()

    async def run() -> Any:
        loop = CreditAgentLoop(
            DictConfigWrap(config), Server(lambda *_: ([1], None)), tokenizer, None, None, DictConfigWrap(config.data)
        )
        return await loop.run({}, raw_prompt=[], extra_info={})

    with pytest.raises(DataError, match="creditflow data build verl"):
        asyncio.run(run())


def test_a_record_round_trips_through_verls_text_column_and_other_texts_are_rejected() -> None:
    from creditflow.wrappers.records.trajectory import Trajectory, Turn

    played = Trajectory("t", "g", "task", (Turn("a", "x", "b"),), False, 0.0, "failed", "b")
    record = EpisodeRecord(played, np.array([0, 4], np.int32), {"question": "q"})
    again = EpisodeRecord.decode(record.encode())
    assert (again.trajectory, again.turn_offsets.tolist(), again.task) == (played, [0, 4], {"question": "q"})
    for wrong in (None, "", "[0]\n{}", record.encode().replace("[0, 4]", "[0, 4, 5]"), "x\n{}"):
        with pytest.raises(DataError):
            EpisodeRecord.decode(wrong)


def test_an_episode_ends_where_its_context_is_full_as_our_own_agents_end_it(
    play: Callable[..., Any], tokenizer: Any, config_of: Callable[..., Any]
) -> None:
    prompting = {"prompt": "places-v1", "dialect": "bare", "max_context": 40}
    batch = play(random_server(tokenizer), config=config_of(prompting=prompting))
    reasons = [record.trajectory.stop_reason for record in records(batch)]
    assert "token_limit" in reasons
    for i in range(len(batch)):
        assert len(whole(batch, i)) <= 40


def test_a_failing_loop_leaves_its_own_reason(
    play: Callable[..., Any], tokenizer: Any, config_of: Callable[..., Any], tmp_path: Path
) -> None:
    failures = tmp_path / "failures"
    config = config_of(failures=str(failures), prompting={"prompt": "places-v1", "dialect": "bares"})
    with pytest.raises(Exception, match="bare"):
        play(random_server(tokenizer), config=config)
    reports = [path.read_text(encoding="utf-8") for path in failures.iterdir()]
    assert reports
    assert all(report.startswith("ConfigError: ") and "'bare'" in report for report in reports)
