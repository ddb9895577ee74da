"""``ppo_gae``, ``mt_ppo``: steps are model tokens or turns; the stopping time gets no credit in itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.annotated import with_tokens
from helpers.episodes.builders import group, walk
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.trajectory import Group, StopReason

NAMES = ("ppo_gae", "mt_ppo")
both = pytest.mark.parametrize("name", NAMES)


@both
@pytest.mark.parametrize("end", ["env_limit", "token_limit", "failed"])
def test_the_value_after_the_last_turn_is_zero_also_of_a_truncated_episode(name: str, end: StopReason) -> None:
    g = group(with_tokens(walk("s a b", end), [0.5, 0.5, 0.75]))
    assert credit.make(name, whitening=False).assign(g).advantages[0][-1] == pytest.approx(-0.5)


@both
def test_released_token_gae_includes_observation_tokens(name: str) -> None:
    # the value of an observation token differs: with λ < 1 it changes the advantages of the turn before
    first = with_tokens(walk("s a g"), [0.5, 0.5, 0.0])
    assert first.tokens is not None
    values = first.tokens.values["value.critic"].copy()
    values[5] = 7.0  # the first observation token of the second turn
    other = replace(first, tokens=replace(first.tokens, values={"value.critic": values}))
    options: dict[str, Any] = {"gae_lambda": 0.0, "whitening": False}
    if name == "ppo_gae":
        release = [
            credit.make(name, semantics="release", **options).assign(group(t)).flat_advantages for t in (first, other)
        ]
        assert release[0].tolist() != release[1].tolist()
    paper = [credit.make(name, **options).assign(group(t)).flat_advantages for t in (first, other)]
    assert paper[0].tolist() == paper[1].tolist()


@both
def test_whitening_is_over_the_model_tokens_of_the_batch(name: str) -> None:
    groups = [
        group(
            with_tokens(walk("s a g"), [0.1, 0.7, 0.0], sampled=1),
            with_tokens(walk("s b", "failed"), [0.4, 0.0], sampled=5),
        ),
        group(with_tokens(walk("s g"), [0.2, 0.0], observed=7, sampled=2)),
    ]
    scored = credit.make(name).assign_batch(groups)
    samples = []
    for one, c in zip(groups, scored, strict=True):
        for i, t in enumerate(one.trajectories):
            assert t.tokens is not None
            turns = np.repeat(c.advantages[i], np.diff(np.append(0, np.cumsum(t.tokens.mask))[t.tokens.turn_offsets]))
            samples.append(turns if c.token_advantages is None else c.token_advantages[i])
    flat = np.concatenate(samples)
    assert flat.mean() == pytest.approx(0.0, abs=1e-9)
    assert flat.std(ddof=1) == pytest.approx(1.0)


@both
@given(lengths=st.lists(st.integers(1, 5), min_size=2, max_size=4), seed=st.integers(0, 99), gae_lambda=st.floats(0, 1))
def test_credit_of_a_short_trajectory_does_not_depend_on_the_others(name, lengths, seed, gae_lambda):
    # before whitening, credit of one trajectory is a function of that trajectory: neither how many turns its
    # neighbours take nor how many tokens they are padded to reaches it
    rng = np.random.default_rng(seed)
    members = [
        with_tokens(
            walk([f"{i}.{t}" for t in range(n)] + ["g"], rewards=rng.normal(size=n).tolist(), name=f"t{i}"),
            rng.normal(size=n + 1).tolist(), observed=int(rng.integers(1, 4)), sampled=int(rng.integers(1, 4)),
        )
        for i, n in enumerate(lengths)
    ]  # fmt: skip
    scheme = credit.make(name, gae_lambda=gae_lambda, discount=0.9, whitening=False)
    together = scheme.assign(Group(tuple(members)))
    for i, member in enumerate(members):
        alone = scheme.assign(Group((member,)))
        assert together.advantages[i].tolist() == alone.advantages[0].tolist()


@both
@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_with_true_values_the_decision_to_stop_gets_exactly_its_advantage(name: str, gae_lambda: float) -> None:
    # before turn t the policy stops with probability p_t for a reward of b_t, else continues; turn 3 always stops.
    # over all stopping times, the mean advantage of "stop" and of "continue" before turn t must be Q − V exactly
    p, b = [0.3, 0.6, 0.5, 1.0], [0.2, 1.0, -0.5, 0.4]
    value = [0.0] * 5
    for t in (3, 2, 1, 0):
        value[t] = p[t] * b[t] + (1 - p[t]) * value[t + 1]
    scheme = credit.make(name, gae_lambda=gae_lambda, whitening=False)
    total, probability = np.zeros((4, 2)), np.zeros((4, 2))
    reached = 1.0
    for stop in range(4):
        weight = reached * p[stop]
        reached *= 1 - p[stop]
        states = [f"{t}" for t in range(stop + 1)] + ["g"]
        member = with_tokens(walk(states, rewards=[0.0] * stop + [b[stop]]), [*value[: stop + 1], 0.0], sampled=1)
        [advantages] = scheme.assign(group(member)).advantages
        for t, a in enumerate(advantages.tolist()):
            total[t, int(t == stop)] += weight * a
            probability[t, int(t == stop)] += weight
    for t in range(4):
        assert total[t, 1] / probability[t, 1] == pytest.approx(b[t] - value[t], abs=1e-6)
        if probability[t, 0]:
            assert total[t, 0] / probability[t, 0] == pytest.approx(value[t + 1] - value[t], abs=1e-6)
        assert total[t].sum() == pytest.approx(0.0, abs=1e-6)


@both
def test_without_rewards_and_with_a_correct_critic_the_stopping_time_gets_zero_credit(name: str) -> None:
    g = group(*(with_tokens(walk(["s"] * n + ["e"], "failed"), [0.0] * (n + 1)) for n in (1, 3, 6)))
    assert not credit.make(name).assign(g).flat_advantages.any()


@both
def test_the_error_about_a_missing_critic_names_the_command(name: str) -> None:
    bare = with_tokens(walk("s g"), [0.0, 0.0])
    assert bare.tokens is not None
    bare = replace(bare, turns=tuple(replace(t, values={}) for t in bare.turns), tokens=replace(bare.tokens, values={}))
    with pytest.raises(CreditError, match=r"needs the annotation 'value\.critic'.*annotate --with critic:DIR"):
        credit.make(name).assign(group(bare))


@both
def test_a_branch_is_credited_for_its_own_turns(name: str) -> None:
    root = with_tokens(walk("s a b g", name="root"), [0.5, 0.5, 0.5, 0.0])
    branch = with_tokens(walk("a c g", "failed", name="branch", parent="root", fork_turn=1), [0.5, 0.25, 0.0])
    scored = credit.make(name, whitening=False).assign(Group((root, branch)))
    assert [len(a) for a in scored.advantages] == [3, 2]
    np.testing.assert_allclose(scored.advantages[1], [-0.5, -0.25])


@both
def test_invalid_turns_get_the_penalty(name: str) -> None:
    g = group(with_tokens(walk("s a g", invalid=[0]), [0.0, 1.0, 0.0]))
    plain = credit.make(name, gae_lambda=0.0, whitening=False).assign(g).advantages[0]
    penalised = credit.make(name, gae_lambda=0.0, whitening=False, invalid_penalty=0.3).assign(g).advantages[0]
    tokens = 3 if name == "ppo_gae" else 1
    np.testing.assert_allclose(plain - penalised, [0.3 / tokens, 0.0])
