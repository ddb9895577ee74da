"""prime-rl's own algorithm table, base class and reader of credit, on verifiers' own traces.

prime-rl is not on PyPI; the tier runs where ``PRIME_RL_SOURCE`` names a checkout and what its orchestrator imports is installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS
from helpers.trainers.verifiers_traces import episodes_of, trace_of

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.contract import ContractCase, OnTokens, check_end
from creditflow.wrappers.credit.base import Scheme

pytestmark = pytest.mark.prime_rl

NAMES = [name for name in GROUPS if name != "one turn"]


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """prime-rl's table of algorithms, restored after the test."""
    algo = pytest.importorskip(
        "prime_rl.orchestrator.algo", reason="prime-rl does not import here: see train/adapters/README.md"
    )
    monkeypatch.setattr(algo, "ALGORITHM_CLASSES", dict(algo.ALGORITHM_CLASSES))
    yield algo.ALGORITHM_CLASSES


def built(scheme: str) -> Any:
    """The algorithm as prime-rl builds it from the configuration ``type = "grpo"``."""
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from prime_rl.orchestrator.algo import build_algorithm

    from creditflow.train.adapters.prime_rl import install

    installed = install(credit.make(scheme))
    algorithm = build_algorithm(GRPOAlgoConfig(), None)
    assert type(algorithm) is installed
    return algorithm


def traces_of(name: str) -> tuple[list[Any], list[list[tuple[int, int]]]]:
    """A trace per episode, turn t with t + 2 tokens read and t + 1 sampled."""
    members = [replace(one, tokens=None) for one in GROUPS[name].trajectories]
    spans = [[(t + 2, t + 1) for t in range(len(one.turns))] for one in members]
    return [trace_of(one, span) for one, span in zip(members, spans, strict=True)], spans


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo"])
def test_a_groups_credit_is_where_prime_rl_reads_it(name: str, scheme: str) -> None:
    from prime_rl.orchestrator.algo.routing import is_trainable

    traces, spans = traces_of(name)
    asyncio.run(built(scheme).finalize_group(episodes_of(traces)))
    expected = credit.make(scheme).assign(GROUPS[name])
    for trace, span, numbers, kept in zip(traces, spans, expected.advantages, expected.loss_mask, strict=True):
        per_turn = np.where(kept, numbers, 0.0).tolist()
        [branch] = trace.branches
        wanted = [x for (read, sampled), x in zip(span, per_turn, strict=True) for x in [0.0] * read + [x] * sampled]
        assert branch.advantages == wanted
        assert is_trainable(trace) == any(per_turn)


def test_the_end_passes_the_contract() -> None:
    def end(case: ContractCase, scheme: Scheme) -> OnTokens:
        traces = []
        for group in case.groups:  # prime-rl scores a group at a time
            made = [trace_of(episode, case.counts(episode)) for episode in group.trajectories]
            asyncio.run(built(scheme.name).finalize_group(episodes_of(made, group.group_id)))
            traces += made
        return [[node.advantages for node in trace.nodes if node.sampled] for trace in traces]

    check_end(end)


def test_numbers_are_those_that_prime_rls_own_function_assigns() -> None:
    from prime_rl.orchestrator.algo import assign_advantages

    traces, spans = traces_of("unequal turn counts")
    asyncio.run(built("gigpo").finalize_group(episodes_of(traces)))
    for trace, span in zip(traces, spans, strict=True):
        before = [node.advantages for node in trace.nodes]
        flat = [x for values in before for x in values or []]
        assert len(flat) == sum(sampled for _, sampled in span)
        assign_advantages(trace, flat)
        assert [node.advantages for node in trace.nodes if any(node.mask)] == [values for values in before if values]


def test_branches_that_become_training_samples_carry_the_credit() -> None:
    trajectories = pytest.importorskip("prime_rl.orchestrator.trajectories")
    traces, spans = traces_of("unequal turn counts")
    asyncio.run(built("gigpo").finalize_group(episodes_of(traces)))
    for trace, span in zip(traces, spans, strict=True):
        [(branch, mask)] = trajectories.iter_trainable_branches(trace)
        assert sum(mask) == sum(sampled for _, sampled in span)
        assert branch.advantages == trace.branches[0].advantages


def test_groups_that_lost_their_episodes_get_zero_or_nothing_and_damaged_ones_an_error() -> None:
    traces, _ = traces_of("zero variance")
    algorithm = built("gigpo")
    asyncio.run(algorithm.finalize_group(episodes_of(traces[:1])))
    assert not any(traces[0].branches[0].advantages)
    for trace in traces:
        trace.ok = False
    asyncio.run(algorithm.finalize_group(episodes_of(traces)))
    again, _ = traces_of("zero variance")
    again[1].info.clear()
    with pytest.raises(TrajectoryError, match="has no record under 'creditflow'"):
        asyncio.run(algorithm.finalize_group(episodes_of(again)))


def test_another_prime_rl_than_the_one_read_is_refused(table: dict[str, Any]) -> None:
    from creditflow.train.adapters.prime_rl import install

    del table["grpo"]
    with pytest.raises(ConfigError, match="not as in commit 559b447"):
        install(credit.make("gigpo"))
    with pytest.raises(ConfigError, match="annotators"):
        install(credit.make("ppo_gae"))
