"""Potentials learned from recorded groups: their versions, and their values along a success."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from helpers.episodes.builders import walk
from helpers.worlds.shaped_sokoban import play, sokoban

from creditflow.agents.scripted import ExpertAgent, NoisyExpert
from creditflow.envs.errors import ConfigError
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.dense_reward import DenseReward
from creditflow.wrappers.history_potential import HISTORY
from creditflow.wrappers.potentials import POTENTIALS, PotentialStore, refusal_reason
from creditflow.wrappers.trajectory import Group


@pytest.mark.parametrize("scheme", POTENTIALS)
def test_before_the_first_success_there_is_no_shaping(scheme):
    store = PotentialStore(scheme)
    failed = Group(tuple(m for m in play(1, NoisyExpert(1.0), 12).trajectories if not m.success))
    store.add([failed])
    assert store.publish() == store.snapshot()
    assert not store.snapshot().values
    env = DenseReward(sokoban(), scheme, gamma=0.9, store=store, terminal="paper")
    env.reset(seed=0)
    for member in play(2, ExpertAgent()).trajectories[0].turns:
        assert env.step(member.action)[4]["shaping"] == 0.0


@pytest.mark.parametrize("scheme", POTENTIALS)
def test_potentials_rise_along_a_success(scheme):
    options: dict[str, Any] = {"distance_discount": 0.8} if scheme == "graphgpo" else {}
    store = PotentialStore(scheme, anchored=False, **options)
    played = play(0)
    assert played.arrays.success.any()
    store.add([played])
    version = store.publish()
    winner = min((m for m in played.trajectories if m.success), key=lambda m: len(m.turns))
    along = [version.of(played.task_id, turn.state_key) for turn in winner.turns]
    assert along[-1] is not None
    assert along[0] is not None
    assert along[-1] > along[0] > 0.0


def test_a_success_that_leaves_the_key_unchanged_is_a_goal_of_rewardflow():
    store = PotentialStore("rewardflow", discount=0.5, anchored=False)
    group = Group((walk("s a a"),))  # the last action answers
    store.add([group])
    assert dict(store.publish().values[group.task_id]) == {"s": 0.25, "a": 0.5}


def test_versions_do_not_depend_on_the_order_in_which_episodes_finish():
    groups = [play(seed, size=3) for seed in range(4)]
    groups = [
        Group(tuple(replace(m, group_id=f"g{i}", trajectory_id=f"g{i}/{j}") for j, m in enumerate(g.trajectories)))
        for i, g in enumerate(groups)
    ]
    versions = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        store = PotentialStore("grouptd", window=2)
        store.add([groups[i] for i in order])
        versions.append(store.publish())
    assert versions[0] == versions[1]


OTHER_VALUES = {
    "gigpo": {"discount": 0.5, "key": "text"},
    "hgpo": {"discount": 0.5, "history_length": 0, "key": "text", "weight_exponent": 3.0},
    "rewardflow": {"discount": 0.5, "key": "text"},
    "graphgpo": {"distance_discount": 0.5, "key": "text", "success_reward": 3.0},
    "grouptd": {"discount": 0.5, "key": "text", "outcome": "success", "prior": "none", "prior_weight": 9.0},
}  # fmt: skip


def published(groups, scheme, **parameters):
    store = PotentialStore(scheme, **parameters)
    store.add(groups)
    return store.publish().values


@pytest.mark.parametrize("scheme", POTENTIALS)
def test_a_store_takes_exactly_the_parameters_that_change_its_potential(scheme):
    [group] = [play(0, NoisyExpert(0.5), 12)]
    texts = [replace(t, text_key=f"{t.text_key} {i}") for i, t in enumerate(group.trajectories[0].turns)]
    graded = replace(group.trajectories[0], turns=tuple(texts), score=0.5)
    groups = [Group((graded, *group.trajectories[1:]), group.task)]
    for field in fields(lookup(scheme)):
        if field.name not in POTENTIALS[scheme].parameters:
            with pytest.raises(ConfigError, match=f"potential of {scheme} does not depend on {field.name}"):
                published(groups, scheme, **{field.name: field.default})
        elif field.name not in ("form", "merge"):  # with one permitted value
            given = {field.name: OTHER_VALUES[scheme][field.name]}
            assert published(groups, scheme, **given) != published(groups, scheme), field.name


def test_every_scheme_has_a_potential_of_states_or_histories_or_is_refused_with_the_reason() -> None:
    for scheme in credit.names():
        if scheme not in POTENTIALS and scheme not in HISTORY:
            with pytest.raises(ConfigError, match=f"{scheme} cannot be a potential: {refusal_reason(scheme)}"):
                DenseReward(sokoban(), scheme, gamma=0.9)
        elif scheme in POTENTIALS and not POTENTIALS[scheme].by_distance:
            looks_back = POTENTIALS[scheme].depth is not POTENTIALS["gigpo"].depth
            assert (PotentialStore(scheme).snapshot().depth > 0) == looks_back


def test_only_schemes_with_a_potential_make_a_store():
    with pytest.raises(ConfigError, match="grpo cannot be a potential: it gives no value to a state"):
        PotentialStore("grpo")
    with pytest.raises(ConfigError, match="did you mean 'graphgpo'"):
        PotentialStore("graphgp")
    with pytest.raises(ConfigError, match="stationary"):
        PotentialStore("grouptd", form="horizon")
