"""Names, parameters and presets of schemes: valid ones construct, errors suggest the nearest name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.published_schemes import PUBLISHED

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit import Credit, Scheme, registry

BOTH = ("paper", "release")


@pytest.fixture(autouse=True)
def registry_left_as_it_was() -> Iterator[None]:
    before = registry.SCHEMES.entries()
    yield
    registry.SCHEMES._entries.clear()
    registry.SCHEMES._entries.update(before)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("semantics", BOTH)
def test_every_preset_constructs_with_every_value_of_every_option(name, semantics):
    scheme = credit.make(name, semantics=semantics)
    for line in credit.describe(name).split("\n\n")[-1].splitlines()[1:]:
        parameter, *_, values = line.split("  ")
        for value in values.strip().split(" | ") if "|" in values else []:
            try:
                credit.make(name, semantics=semantics, **{parameter.strip(): value})
            except ConfigError as error:  # the error about a meaningless combination names what to use instead
                assert "use" in str(error), error
    with pytest.raises(FrozenInstanceError):
        scheme.std_eps = 1.0  # type: ignore[attr-defined]  # typed as the base class


def test_the_default_is_the_paper():
    assert credit.make("gigpo") == credit.make("gigpo", semantics="paper")
    assert credit.make("gigpo") != credit.make("gigpo", semantics="release")


@pytest.mark.parametrize("name", [name for name in credit.names() if hasattr(credit.make(name), "stats_over")])
def test_paper_semantics_has_no_eps_no_penalty_and_one_sample_a_trajectory(name):
    preset = credit.make(name)
    assert (preset.std_eps, preset.invalid_penalty, preset.stats_over) == (0.0, 0.0, "trajectories")  # type: ignore[attr-defined]  # typed as the base class


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: credit.make("grp0"), "unknown credit scheme 'grp0'; did you mean 'grpo'?"),
        (lambda: credit.make("graphgpo", distance=0.2), "did you mean 'distance_discount'?"),
        (
            lambda: credit.make("gigpo", step_scale="sdt"),
            "unknown value of gigpo.step_scale 'sdt'; did you mean 'std'?",
        ),
        (
            lambda: credit.make(
                "gigpo",
                semantics="papers",  # type: ignore[arg-type]  # the wrong value is the test
            ),
            "did you mean 'paper'?",
        ),
        (lambda: credit.make("gigpo", discount="0.9"), "gigpo.discount must be a finite number, got '0.9'"),
        (lambda: credit.make("gigpo", discount=True), "must be a finite number"),
        (lambda: credit.make("gigpo", discount=float("nan")), "must be a finite number"),
        (lambda: credit.make("gigpo", discount=1.5), r"gigpo.discount must lie in \[0, 1\], got 1.5"),
        (lambda: credit.make("graphgpo", distance_discount=1.0), r"must lie in \(0, 1\)"),
        (lambda: credit.make("graphgpo", distance_discount=0), r"must lie in \(0, 1\)"),
        (lambda: credit.make("graphgpo", success_reward=0.0), r"must lie in \(0, inf\)"),
        (lambda: credit.make("egrpo", aliases=1), "must be bool, got 1"),
        (lambda: credit.make("graphgpo", similarity=1.0), r"must lie in \[0, 1\)"),
        (lambda: credit.make("rewardflow", discount=-0.1), r"must lie in \[0, 1\]"),
        (lambda: credit.make("grpo", invalid_penalty=-0.1), r"must lie in \[0, inf\)"),
        (lambda: credit.make("grpo", std_eps=-1e-6), r"must lie in \[0, inf\)"),
        (lambda: credit.describe("rlo"), "did you mean 'rloo'?"),
        (lambda: credit.filter_groups([group(walk("s g"))], outcome="sucess"), "did you mean 'success'?"),  # type: ignore[arg-type]  # the wrong value is the test
        (lambda: credit.normalize(np.ones(1), np.zeros(1, np.int32), 1, scale="sdt"), "did you mean 'std'?"),  # type: ignore[arg-type]  # the wrong value is the test
        (lambda: credit.filter_groups([], tolerance=-1.0), "tolerance must be ≥ 0"),
    ],
)
def test_errors_suggest_the_nearest_name(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_explain_prints_formula_source_shared_options_and_both_presets():
    text = credit.describe("graphgpo")
    assert text.startswith("graphgpo: A = w_E A^E + w_G (r − mean_{G(s)} r) / std_{G(s)} r")
    assert "arXiv 2605.26684" in text
    assert "stats_over: what is a sample" in text
    table = """\
parameter          paper         release  values
invalid_penalty    0.0           0.1      float in [0, inf)
outcome            return        return   return | success | score
stats_over         trajectories  turns    trajectories | turns | first_turns
std_eps            0.0           1e-06    float in [0, inf)
key                state         text     state | text
merge_threshold    0.9           0.9      float in (0, 1]
merge_text         key           key      key | observation
distance_discount  0.1           0.1      float in (0, 1)"""
    assert table in text


@pytest.mark.parametrize("name", credit.names())
def test_explain_names_every_parameter(name):
    table = credit.describe(name).split("\n\n")[-1]
    assert [row.split()[0] for row in table.splitlines()[1:]] == list(credit.make(name).preset("paper"))


@pytest.mark.parametrize("name", registry.SCHEMES.shipped())
def test_every_scheme_has_a_test_file_of_its_name(name):
    assert len(list(Path(__file__).parent.rglob(f"test_{name}.py"))) == 1


# -- custom schemes ----------------------------------------------------------------------------------------------
def last_turn() -> type[Scheme]:
    @dataclass(frozen=True, kw_only=True)
    class LastTurn(Scheme):
        """All credit to the last turn."""

        name = "last_turn"
        presets = {"paper": {}, "shout": {"bonus": 5.0}}
        bonus: float = 1.0
        limit: int | None = None
        mode: Literal["plain", "loud"] = "plain"

        def assign(self, group):
            arrays = group.arrays
            step = self.bonus * (arrays.last & arrays.success[arrays.trajectory])
            return Credit.of(group, outcome=np.zeros(len(group)), step=step)

    return LastTurn


def test_a_registered_scheme_is_made_listed_and_explained():
    cls = credit.register(last_turn())
    assert "last_turn" in credit.names()
    scheme = credit.make("last_turn", bonus=2.0)
    assert isinstance(scheme, cls)
    assert scheme.assign(group(walk("s a g"))).flat_advantages.tolist() == [0.0, 2.0]
    assert credit.make("last_turn", semantics="shout").assign(group(walk("s g"))).flat_advantages.tolist() == [5.0]  # type: ignore[arg-type]  # no such semantics: the mistake under test
    assert "bonus" in credit.describe("last_turn")
    credit.check_credit(scheme, draws=5)


def test_a_parameter_may_have_any_type_hint():
    credit.register(last_turn())
    assert credit.make("last_turn", limit=3).limit == 3  # type: ignore[attr-defined]  # typed as the base class
    assert credit.make("last_turn", limit=None).limit is None  # type: ignore[attr-defined]  # typed as the base class
    assert "int | None" in credit.describe("last_turn")


def test_a_taken_name_is_rejected_and_registering_twice_is_not():
    cls = last_turn()
    assert credit.register(credit.register(cls)) is cls
    with pytest.raises(ConfigError, match="named 'last_turn' exists already"):
        credit.register(last_turn())


def forgotten_decorator() -> type[Scheme]:
    class Mine(Scheme):
        name = "mine"
        bonus: float = 1.0

        def assign(self, group):
            return Credit.of(group)

    return Mine


def required_parameter() -> type[Scheme]:
    @dataclass(frozen=True, kw_only=True)
    class Mine(Scheme):
        name = "mine"
        bonus: float

        def assign(self, group):
            return Credit.of(group)

    return Mine


def with_attributes(**attributes: Any) -> type[Scheme]:
    cls = last_turn()
    for name, value in attributes.items():
        setattr(cls, name, value)
    return cls


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (forgotten_decorator(), "decorate the class with @dataclass"),
        (required_parameter(), "needs a default"),
        (with_attributes(name=""), "class attribute name"),
        (with_attributes(presets={"release": {}}), "must contain 'paper'"),
        (with_attributes(presets={"paper": {"bonsu": 1.0}}), "did you mean 'bonus'"),
        (with_attributes(ranges={"bonsu": "[0, 1]"}), "did you mean 'bonus'"),
    ],
)
def test_common_mistakes_in_a_scheme_are_reported_at_registration(cls, message):
    with pytest.raises(ConfigError, match=message):
        credit.register(cls)
    assert "mine" not in credit.names()
