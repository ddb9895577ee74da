"""Weights between tasks: one option for every scheme, with its effect on the credit worked out by hand."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk

from creditflow import credit
from creditflow.envs.errors import ConfigError

PLAYED = group(walk("s a b g"), walk("s c", "failed"))  # three turns with outcome 1, one with outcome 0


def test_centring_subtracts_the_mean_over_the_groups_turns() -> None:
    # z-scores of 1, 0 are ±√½; the mean over the four turns is √½ (3 − 1) / 4
    centred = credit.make("grpo", centre="group").assign(PLAYED)
    half = 0.5**0.5
    np.testing.assert_allclose(centred.flat_advantages, np.array([half, half, half, -half]) - half / 2)


def test_division_by_success_multiplies_a_groups_credit_by_the_inverse_of_its_rate() -> None:
    # the rate is one success of two, with one more success and one more failure: ρ = 2 of 4
    plain = credit.make("gigpo").assign(PLAYED)
    divided = credit.make("gigpo", divide_by_success=True).assign(PLAYED)
    np.testing.assert_allclose(divided.flat_advantages, plain.flat_advantages / 0.5)
    np.testing.assert_allclose(sum(divided.step_terms.values()), divided.flat_step_advantages)


def test_grouptds_own_division_is_the_shared_one() -> None:
    settings: dict[str, Any] = {"progress_weight": 0.0, "divide_by_success": False}
    inside = credit.make("grouptd", **{**settings, "divide_by_success": True}).assign(PLAYED)
    outside = credit.make("grouptd", **settings).assign(PLAYED)
    np.testing.assert_allclose(inside.flat_advantages, outside.flat_advantages / 0.5)


@pytest.mark.parametrize("name", credit.names(given=()))
def test_every_scheme_takes_both_options_and_its_terms_still_add_up(name: str) -> None:
    played = group(walk("s a g"), walk("s a x", "failed"), walk("s b", "failed"))
    scored = credit.make(name, centre="group").assign(played)
    assert scored.flat_advantages[scored.flat_loss_mask].sum() == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(sum(scored.step_terms.values()), scored.flat_step_advantages, atol=1e-12)


def test_the_needs_of_the_scheme_are_its_own() -> None:
    scheme = credit.make("prm", centre="group")
    assert (scheme.name, scheme.needs) == ("prm", ("judge.score",))
    played = group(
        annotated(walk("s g"), {"judge.score": [0.5]}), annotated(walk("s x", "failed"), {"judge.score": [0.1]})
    )
    assert scheme.assign(played).flat_advantages.sum() == pytest.approx(0.0)
    assert "judge.score" in scheme.undefined_on(PLAYED)


def test_a_weighted_scheme_is_one_of_its_class_and_can_be_sent_to_another_process() -> None:
    scheme = credit.make("graphgpo", centre="group", invalid_penalty=0.3)
    assert isinstance(scheme, credit.GraphGPO)
    assert getattr(scheme, "invalid_penalty", None) == 0.3
    copy = deepcopy(scheme)
    np.testing.assert_array_equal(copy.assign(PLAYED).flat_advantages, scheme.assign(PLAYED).flat_advantages)
    assert str(credit.explain(PLAYED, scheme, "s a b g", 0)).startswith("graphgpo")


def test_defaults_leave_the_scheme_as_it_is_and_other_values_are_refused() -> None:
    assert credit.make("grpo", centre="none", divide_by_success=False) == credit.make("grpo")
    with pytest.raises(ConfigError, match=r"grpo\.centre"):
        credit.make("grpo", centre="batch")
    with pytest.raises(ConfigError, match=r"grpo\.divide_by_success must be bool"):
        credit.make("grpo", divide_by_success=1)
