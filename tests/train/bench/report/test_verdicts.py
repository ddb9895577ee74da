"""Comparisons of schemes: families of contrasts, leaders and ties, on synthetic results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.train.bench.report.tables import number_text, regime_table
from creditflow.train.bench.report.tidy import Estimate, Results, results_of
from creditflow.train.bench.report.verdicts import (
    FEW_TASKS,
    Leader,
    Verdict,
    against,
    leader_of,
    p_text,
    sentences,
    verdicts,
    winner,
)
from creditflow.train.statistics import ClusteredMean, Contrast


def results(seed=0, seeds=5, tasks=30, **means):
    """Crossed results around these means; methods share the effects of task and seed."""
    rng = np.random.default_rng(seed)
    shared = 0.1 * rng.normal(size=(1, tasks)) + 0.05 * rng.normal(size=(seeds, 1))
    return {name: (mean + shared + 0.02 * rng.normal(size=(seeds, tasks))).tolist() for name, mean in means.items()}


def setting(endpoints, kind="pits", regime="shared policy", keys="distinct", condition=""):
    """A stored setting of a shared policy."""
    described = {"regime": regime, "kind": kind, "keys": keys, "batch": 16, "size": 8, "condition": condition}
    return described | {"endpoints": endpoints}


def study(kind="pits", regime="shared policy", keys="distinct", condition="", **means):
    return setting({"area": results(**means)}, kind, regime, keys, condition)


def suite(*studies, controls=()):
    names = [name for name in studies[0]["endpoints"]["area"] if name not in controls]
    stored = {"studies": list(studies), "curves": [{}] * len(studies)}
    return {"name": "shared", "schemes": names, "controls": list(controls), **stored}


def measure(*studies):
    """The areas of some studies, with tasks and seeds as samples."""
    return Results(results_of(suite(*studies)).settings, "both").measure("area")


MEANS = {"grpo": 0.5, "gigpo": 0.55, "rloo": 0.5, "graphgpo": 0.551}


def test_a_clear_lead_separates_and_equal_schemes_do_not():
    found = against("grpo", list(MEANS), measure(study(**MEANS)))
    assert {name: contrast.separates for name, contrast in found.items()} == {
        "gigpo": True,
        "rloo": False,
        "graphgpo": True,
    }
    assert found["gigpo"].difference.mean == pytest.approx(0.05, abs=0.01)


def test_the_leader_names_those_it_is_not_separated_from():
    leader = leader_of(list(MEANS), measure(study(**MEANS)))
    assert {leader.name, *leader.tied} == {"gigpo", "graphgpo"}
    assert 0.0 < leader.detectable < 0.03


def test_the_leader_separates_by_chance_in_at_most_a_twentieth_of_the_studies():
    """Five equal schemes: any separation is an error."""
    studies, wrong = 200, 0
    names = {f"scheme {i}": 0.5 for i in range(5)}
    for number in range(studies):
        leader = leader_of(list(names), measure(setting({"area": results(number, 5, 8, **names)}, "pits")))  # fmt: skip
        wrong += len(leader.tied) < 4
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


def test_studies_are_strata_of_equal_weight():
    one, other = study(kind="pits", **MEANS), study(kind="open", seed=1, **dict.fromkeys(MEANS, 0.8))
    both = measure(one, other)("gigpo", "grpo")
    alone = [measure(s)("gigpo", "grpo") for s in (one, other)]
    assert both.mean == pytest.approx(np.mean([x.mean for x in alone]))
    assert both.standard_error == pytest.approx(math.hypot(*(x.standard_error for x in alone)) / 2)


def test_the_verdicts_are_by_regime_keys_batch_and_condition():
    document = {
        "suites": [
            suite(
                study(**MEANS, oracle_adv=0.7),
                study("open", seed=1, **MEANS, oracle_adv=0.7),
                study("fresh", keys="fresh", grpo=0.6, gigpo=0.5, rloo=0.5, graphgpo=0.5, oracle_adv=0.7),
                study(condition="lr", **MEANS, oracle_adv=0.7),
                controls=("oracle_adv",),
            ),
            suite(study("sokoban", "language model", grpo=0.5, gigpo=0.5)),
        ]
    }
    found = verdicts(document)
    assert [(v.regime, v.tasks, v.keys, v.batch) for v in found] == [
        ("shared policy", "pits, open", "distinct", "16 tasks × 8 rollouts"),
        ("shared policy", "fresh", "fresh", "16 tasks × 8 rollouts"),
        ("shared policy", "pits", "distinct", "16 tasks × 8 rollouts, lr"),
        ("language model", "sokoban", "distinct", "16 tasks × 8 rollouts"),
    ]
    assert found[0].lead is not None
    assert found[0].lead.separates
    assert found[0].headroom is not None
    assert found[0].headroom.mean == pytest.approx(0.15, abs=0.01)
    assert (found[1].leader.name, found[1].lead, found[1].leader.tied) == ("grpo", None, ())
    assert found[3].headroom is None
    table = regime_table(document)
    assert table is not None
    assert len(table.rows) == 5
    assert table.rows[2][6] == "–"
    tied = table.rows[4]
    assert "(detectable: " in tied[8]


def test_there_is_no_verdict_without_two_schemes_on_a_learning_curve():
    assert regime_table({"suites": [suite(study(grpo=0.5))]}) is None


@given(p=st.floats(0.0, 1.0))
def test_p_values_are_short(p):
    shown = p_text(p)
    assert len(shown) <= 6
    assert (shown == "< .001") == (p < 0.001)


def test_unknown_values_are_shown_as_a_dash():
    (found,) = against("a", ["a", "b"], measure(setting({"area": {"a": [[0.1]], "b": [[0.2]]}}, "x"))).values()  # fmt: skip
    assert (p_text(found.p_adjusted), number_text(found.detectable)) == ("–", "–")


@pytest.mark.parametrize("areas", [{"a": [[0.1]], "b": [[0.1, 0.2]]}, {"a": [0.1], "b": [0.1]}, {}])
def test_results_of_different_shapes_are_rejected(areas):
    with pytest.raises(DataError, match="one shape"):
        results_of(suite(setting({"area": areas})))


def contrast(*, clear: bool) -> Contrast:
    """A lead of ten points."""
    error, p = (0.01, 1e-3) if clear else (0.2, 0.6)
    return Contrast(ClusteredMean(0.1, error, 5.0), p, p)


def verdict(name: str, tied: tuple[str, ...] = (), *, clear: bool = True, faster: tuple[str, ...] = ()) -> Verdict:
    leader = Leader(name, Estimate(0.5, 0.4, 0.6), tied, math.nan)
    found = {other: contrast(clear=True) for other in faster}
    return Verdict("r", "t", "k", "b", "2 tasks in each of 3 kinds", leader, contrast(clear=clear), None, found)


BASELINE = verdict("grpo")._replace(lead=None)


LEAD = "a learned faster than grpo, by +10.0 [+5.8, +14.2] percentage points"
NONE = "no scheme learned clearly faster than grpo"


@pytest.mark.parametrize(
    ("of_run", "sentence"),
    [
        ([BASELINE], f"t: {NONE}."),
        ([verdict("a")], f"t: {LEAD}."),
        ([verdict("a", ("b", "c"))], f"t: {LEAD}; b and c may be as good."),
        ([verdict("a", clear=False)], f"t: {NONE}."),
        ([verdict("b", clear=False, faster=("a",))], f"t: {LEAD}."),
        ([verdict("a")._replace(number=6)], "t: 6 tasks are too few for a verdict."),
        (
            [verdict("a")] * 2 + [verdict("b"), BASELINE],
            "t: a learned faster than grpo in 2 of 4 settings; b learned faster than grpo in 1 of 4 settings; no scheme learned clearly "
            "faster than grpo in 1 of 4 settings.",
        ),
        ([verdict("a")._replace(suite="one"), BASELINE._replace(suite="two")], f"one: {LEAD}. two: {NONE}."),
    ],
)
def test_every_suite_has_a_sentence_and_an_order_only_where_its_interval_excludes_0(
    of_run: list[Verdict], sentence: str
) -> None:
    assert " ".join(sentences(of_run)) == sentence


RUNS = st.tuples(
    st.integers(0, 2**32 - 1),
    st.integers(2, 6),
    st.sampled_from((0.0, 0.02, 0.05)),
    st.integers(2, 6),
    st.sampled_from((6, 12)),
)


@given(st.lists(RUNS, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_is_said_follows_from_the_intervals_of_one_family(drawn: list[tuple[int, int, float, int, int]]) -> None:
    """Over random results: an order is stated exactly where an interval, adjusted over all suites, excludes 0 on enough tasks."""
    suites = []
    for number, (seed, seeds, spread, schemes, tasks) in enumerate(drawn):
        rng = np.random.default_rng(seed)
        names = ["grpo", *(f"s{i}" for i in range(1, schemes))]
        runs = {name: (rng.normal(0.0, spread) + rng.normal(0.0, 0.02, (seeds, tasks))).tolist() for name in names}
        random = setting({"area": runs}, "kind")
        suites.append(suite(random) | {"name": f"suite {number}"})
    of_run = verdicts({"suites": suites})
    said = sentences(of_run)
    assert [one.partition(":")[0] for one in said] == [suite["name"] for suite in suites], "every suite is named"
    for one, sentence in zip(of_run, said, strict=True):
        assert one.family == sum(len(suite["schemes"]) - 1 for suite in suites)
        found = winner(one)
        assert ("learned faster than" in sentence) == (found is not None)
        if found is not None:
            assert found.interval.low > 0.0 and one.number >= FEW_TASKS


def test_a_scheme_behind_a_noisy_best_mean_can_be_the_one_that_is_separated_from_the_baseline() -> None:
    rng = np.random.default_rng(0)
    runs = {
        "grpo": np.zeros((8, 12)),
        "noisy": 0.05 + rng.normal(0.0, 0.2, (8, 1)) + np.zeros((8, 12)),
        "steady": 0.03 + rng.normal(0.0, 0.002, (8, 12)),
    }
    runs["noisy"] += 0.05 - runs["noisy"].mean()
    areas = {name: one.tolist() for name, one in runs.items()}
    [found] = verdicts({"suites": [suite(setting({"area": areas}, "kind"))]})
    assert found.leader.name == "noisy" and found.lead is not None and not found.lead.separates
    assert list(found.faster) == ["steady"]
    assert sentences([found])[0].startswith("shared: steady learned faster than grpo, by +")
