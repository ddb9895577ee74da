"""tinker-cookbook's rollout plays our environments; its datums carry the credit of our own log on exactly the sampled tokens."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.servers.chat_server import random_player
from helpers.trainers.failing import fail_every_third_step
from helpers.trainers.replayed import replayed

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.contract import ContractCase, OnTokens, check_end
from creditflow.train.adapters.text_episode import EpisodeConfig, panel_tasks
from creditflow.wrappers.credit.base import Scheme

pytestmark = pytest.mark.tinker


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
def test_datums_carry_the_credit_of_our_own_log_of_the_same_episodes(
    play: Callable[..., list[Any]], config: EpisodeConfig, tokenizer: Any, scheme: str
) -> None:
    from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages

    from creditflow.train.adapters.tinker import assemble_credit_data

    groups = play(random_player(1), credit.make(scheme))
    data, places = assemble_credit_data(groups)
    theirs, their_places = assemble_training_data(groups, compute_advantages(groups))
    assert places == their_places
    wanted: list[list[float]] = []
    sampled: list[list[int]] = []
    outcomes = set()
    for task, group in zip(panel_tasks(config.env), groups, strict=True):
        texts = [[tokenizer.decode(step.ac.tokens[:-1]) for step in one.transitions] for one in group.trajectories_G]
        ours = replayed(config, task.content, texts)
        outcomes |= {one.success for one in ours.trajectories}
        assert group.get_total_rewards() == [one.episode_return for one in ours.trajectories]
        expected = credit.make(scheme).assign(ours)
        for one, numbers, kept in zip(group.trajectories_G, expected.advantages, expected.loss_mask, strict=True):
            per_turn = np.where(kept, numbers, 0.0).astype(np.float32).tolist()
            wanted.append([x for step, x in zip(one.transitions, per_turn, strict=True) for _ in step.ac.tokens])
            sampled.append([token for step in one.transitions for token in step.ac.tokens])
    assert outcomes == {True, False}
    found: dict[int, tuple[list[float], list[int]]] = {}
    for datum, reference, place in zip(data, theirs, places, strict=True):
        inputs = {name: value.to_numpy() for name, value in datum.loss_fn_inputs.items()}
        for name in ("mask", "logprobs", "target_tokens"):  # all but the advantages is tinker-cookbook's own
            assert np.array_equal(inputs[name], reference.loss_fn_inputs[name].to_numpy())
        mask = inputs["mask"] > 0
        assert not inputs["advantages"][~mask].any()
        values, tokens = found.setdefault(place["group_idx"] * 6 + place["traj_idx"], ([], []))
        values += inputs["advantages"][mask].tolist()
        tokens += inputs["target_tokens"][mask].tolist()
    assert [found[i][1] for i in range(18)] == sampled
    assert [found[i][0] for i in range(18)] == wanted


def test_the_end_passes_the_contract() -> None:
    import asyncio

    import tinker
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.types import Trajectory, Transition

    from creditflow.train.adapters.tinker import CreditEnv, CreditGroupBuilder, credit_datums

    def end(case: ContractCase, scheme: Scheme) -> OnTokens:
        on_tokens: OnTokens = []
        for group in case.groups:
            played, envs = [], []
            for episode in group.trajectories:
                shown: list[int] = []
                transitions = []
                for before, sampled in case.counts(episode):
                    shown = [*shown, *range(before)]
                    action = TokensWithLogprobs(list(range(sampled)), [-1.0] * sampled)
                    observed = tinker.ModelInput.from_ints(list(shown))
                    transitions.append(Transition(observed, action, reward=0.0, episode_done=False))
                    shown += range(sampled)
                played.append(Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty()))
                ended: Any = SimpleNamespace(
                    messages=[], stop=lambda reason: None, record=partial(case.record, episode)
                )
                envs.append(CreditEnv(ended, None))
            builder = CreditGroupBuilder(EpisodeConfig(), {}, None, scheme, len(envs))
            asyncio.run(builder.compute_group_rewards(played, envs))
            for episode, trajectory in zip(group.trajectories, played, strict=True):
                values: list[float] = []
                for datum in credit_datums(trajectory):
                    inputs = {name: value.to_numpy() for name, value in datum.loss_fn_inputs.items()}
                    values += inputs["advantages"][inputs["mask"] > 0].tolist()
                numbers = iter(values)
                on_tokens.append([[next(numbers) for _ in range(sampled)] for _, sampled in case.counts(episode)])
        return on_tokens

    check_end(end)


def test_the_function_fits_where_the_training_loop_calls_it() -> None:
    import inspect

    from tinker_cookbook.rl import data_processing, train

    from creditflow.train.adapters.tinker import assemble_credit_data

    assert train.assemble_training_data is data_processing.assemble_training_data
    theirs, ours = (inspect.signature(f) for f in (data_processing.assemble_training_data, assemble_credit_data))
    assert list(theirs.parameters) == list(ours.parameters)


def test_completions_that_never_end_are_turns_too(play: Callable[..., list[Any]]) -> None:
    groups = play(lambda _messages: "no end", credit.make("grpo"), size=2, ended=False)
    assert {len(one.transitions) for group in groups for one in group.trajectories_G} == {5}


def test_a_completion_at_which_the_environment_failed_has_zero_credit_and_the_group_its_own(
    play: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow.train.adapters.tinker import ADVANTAGE

    fail_every_third_step(monkeypatch)
    groups = play(random_player(1), credit.make("gigpo"))
    assert [len(group.trajectories_G) for group in groups] == [6, 6, 6]
    numbers = [[step.metrics[ADVANTAGE] for step in one.transitions] for g in groups for one in g.trajectories_G]
    assert any(any(one) for one in numbers)


def test_a_group_of_one_has_zero_credit_and_without_a_scheme_there_is_none(play: Callable[..., list[Any]]) -> None:
    from creditflow.train.adapters.tinker import assemble_credit_data

    data, _ = assemble_credit_data(play(random_player(2), credit.make("gigpo"), size=1))
    assert not any(datum.loss_fn_inputs["advantages"].to_numpy().any() for datum in data)
    with pytest.raises(TrajectoryError, match=r"transition 0 has no credit under 'creditflow/advantage' \(got None\)"):
        assemble_credit_data(play(random_player(2), None, size=2))


def test_lost_and_damaged_transitions_are_refused(
    play: Callable[..., list[Any]], config: EpisodeConfig, renderer: Any
) -> None:
    import asyncio

    from creditflow.train.adapters.tinker import ADVANTAGE, CreditGroupBuilder, assemble_credit_data

    groups = play(random_player(3), credit.make("grpo"), size=2)
    builder = CreditGroupBuilder(config, panel_tasks(config.env)[0].content, renderer, credit.make("grpo"), 2)
    envs = asyncio.run(builder.make_envs())
    with pytest.raises(TrajectoryError, match=r"has 0 turns and \d sampled completions"):
        asyncio.run(builder.compute_group_rewards(groups[0].trajectories_G, envs))
    groups[0].trajectories_G[0].transitions[0].metrics[ADVANTAGE] = float("nan")
    with pytest.raises(TrajectoryError, match="got nan"):
        assemble_credit_data(groups)


def test_builders_travel_to_workers_and_reject_schemes_with_annotations(config: EpisodeConfig, renderer: Any) -> None:
    import asyncio

    from creditflow.train.adapters.tinker import CreditGroupBuilder

    task = panel_tasks(config.env)[0]
    builder = CreditGroupBuilder(config, dict(task.content), None, credit.make("gigpo"))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker:
        assert worker.submit(copy.copy, builder).result() == builder
    with pytest.raises(ConfigError, match="annotators"):
        asyncio.run(CreditGroupBuilder(config, task.content, renderer, credit.make("ppo_gae")).make_envs())
