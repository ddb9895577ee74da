"""The report's first sentence, its words, and that numbers have intervals or say why not."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.train.bench.exact.tasks import SOKOBAN_KINDS
from creditflow.train.bench.report.chart import Interval, chart_of
from creditflow.train.bench.report.conclusions import conclusions
from creditflow.train.bench.report.page import _rows, headline
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import suite_tables
from creditflow.train.bench.report.terms import DEFINITIONS, Words, about_method
from creditflow.train.bench.report.tidy import study_results
from creditflow.train.bench.report.verdicts import (
    FEW_TASKS,
    Leader,
    Verdict,
    sentences,
    standing,
    verdicts,
    verdicts_on,
    winner,
)
from creditflow.train.bench.shared.tasks import SHARED_KINDS
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import ClusteredMean, Contrast

INTERVAL = re.compile(r"\[[-+−]?[\d.]+, [-+−]?[\d.]+\]|± [\d.]+")
NUMBER = re.compile(r"[-+−]?\d*\.\d+")


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
def test_what_is_said_follows_from_the_intervals_that_are_drawn_in_one_family(
    drawn: list[tuple[int, int, float, int, int]],
) -> None:
    """Over random results: an order is stated exactly where an interval, adjusted over all suites, excludes 0 on enough tasks."""
    suites = []
    for number, (seed, seeds, spread, schemes, tasks) in enumerate(drawn):
        rng = np.random.default_rng(seed)
        names = ["grpo", *(f"s{i}" for i in range(1, schemes))]
        runs = {name: (rng.normal(0.0, spread) + rng.normal(0.0, 0.02, (seeds, tasks))).tolist() for name in names}
        study = Study("shared policy", "kind", "distinct", 4, 8, "", {"area": runs})
        suites.append({"name": f"suite {number}", "schemes": names, "studies": [study.to_json()]})
    of_run = verdicts({"suites": suites})
    said = sentences(of_run)
    assert [one.partition(":")[0] for one in said] == [suite["name"] for suite in suites], "every suite is named"
    for one, sentence in zip(of_run, said, strict=True):
        assert one.family == sum(len(suite["schemes"]) - 1 for suite in suites)
        found = winner(one)
        assert ("learned faster than" in sentence) == (found is not None)
        if found is not None:
            assert found.interval.low > 0.0 and one.number >= FEW_TASKS
        rows = list(_rows(one))
        assert bool(rows) == (standing(one) != "baseline")
        for row in rows[1:]:
            assert row.estimate.low > 0.0
        if rows:
            assert ("may be chance" in rows[0].note) == (standing(one) == "unclear")
            assert (rows[0].kind == "best") == (standing(one) == "clear")


def test_a_scheme_behind_a_noisy_best_mean_can_be_the_one_that_is_separated_from_the_baseline() -> None:
    rng = np.random.default_rng(0)
    runs = {
        "grpo": np.zeros((8, 12)),
        "noisy": 0.05 + rng.normal(0.0, 0.2, (8, 1)) + np.zeros((8, 12)),
        "steady": 0.03 + rng.normal(0.0, 0.002, (8, 12)),
    }
    runs["noisy"] += 0.05 - runs["noisy"].mean()
    study = Study(
        "shared policy", "kind", "distinct", 4, 8, "", {"area": {name: one.tolist() for name, one in runs.items()}}
    )
    [found] = verdicts_on(study_results([study], "both"), list(runs))
    assert found.leader.name == "noisy" and found.lead is not None and not found.lead.separates
    assert list(found.faster) == ["steady"]
    assert sentences([found])[0].startswith("kind: steady learned faster than grpo, by +")
    assert [row.name for row in _rows(found)] == ["noisy", "steady"]


def test_the_headline_of_a_run_names_a_scheme_and_draws_every_comparison(document) -> None:
    shown = headline(document)
    assert shown.sound
    assert shown.chart is not None
    assert all(INTERVAL.search(row.text) for row in shown.chart.rows)


def test_failed_checks_are_the_whole_verdict(document) -> None:
    for cell in document["suites"][0]["cells"]:
        cell["offline"]["oracle_adv"], cell["offline"]["flipped(oracle_adv)"] = (
            cell["offline"]["flipped(oracle_adv)"],
            cell["offline"]["oracle_adv"],
        )
    shown = headline(document)
    assert (shown.sentence, shown.sound, shown.chart) == ("Do not use these results.", False, None)
    assert "FAILED" in shown.trust


def test_a_number_in_a_conclusion_has_its_interval_or_is_a_correlation_or_a_detectable_difference(document) -> None:
    for sentence in conclusions(document):
        rest = re.sub(
            r"\(detectable: [\d.]+( points)?\)",
            "",
            re.sub(rf"[-+]?[\d.]+ {INTERVAL.pattern.partition('|')[0]}", "", sentence),
        )
        assert "correlation" in sentence or not NUMBER.search(rest), sentence


def test_every_column_of_numbers_has_intervals_or_its_table_says_that_it_has_none(document) -> None:
    exempt = {"p", "detectable", "ms per 1000 turns"}  # which are about the test, and one measurement of time
    for suite in document["suites"]:
        for table in suite_tables(suite):
            for column, head in enumerate(table.rows[0]):
                cells = [row[column] for row in table.rows[1 : table.controls + 1]]
                bare = [cell for cell in cells if NUMBER.fullmatch(cell)]
                assert not bare or head in exempt or re.search("[Ww]ithout (an |)interval|without one", table.note), (
                    table.title,
                    head,
                )


def test_every_table_of_a_suite_answers_a_question(document) -> None:
    for suite in document["suites"]:
        tables = suite_tables(suite)
        assert all(table.question.endswith("?") for table in tables)
        assert all(bool(table.unit) == bool(table.bars) for table in tables)


@given(st.text())
def test_marking_words_keeps_the_text(text: str) -> None:
    words = Words()
    assert "".join(segment.text for segment in words.marked(text)) == text
    assert "".join(segment.text for segment in words.method(text)) == text
    assert all(words.used[s.term] for s in (*words.marked(text), *words.method(text)) if s.term)


def test_words_are_explained_where_they_first_stand() -> None:
    words = Words()
    segments = words.marked("The gain at KL 0.01; the gain again, p and probability.")
    assert [s.text for s in segments if s.term] == ["gain", "KL"]
    assert words.number("KL") == 2
    assert [s.term for s in Words().marked("p")] == ["p, detectable"]


def test_methods_are_explained() -> None:
    assert "2402.03300" in about_method("grpo") or "Source" in about_method("grpo")
    assert about_method("oracle_adv") == DEFINITIONS["oracle_adv"]
    assert about_method("shuffled(gigpo)") == DEFINITIONS["shuffled(X)"]
    assert DEFINITIONS["X[fitted]"] in about_method("pica[fitted]")
    assert about_method("grouptd_8").startswith("Variant: grouptd with td_lambda=0.8")
    assert about_method("graphgpo_paper").startswith("Variant: as in the paper.")
    assert about_method("nothing_such") == about_method("a{b") == ""


def test_a_kind_of_task_is_explained_in_the_title_of_a_panel() -> None:
    words = Words()
    assert [tuple(s) for s in words.kind("pits, fresh keys")] == [("pits", "pits"), (", fresh keys", "")]
    assert [tuple(s) for s in words.kind("webshop")] == [("webshop", "")]
    assert list(words.used) == ["pits"]
    kinds = {*SHARED_KINDS, *SOKOBAN_KINDS} - {"fresh"}  # which are shown as keys of another kind
    assert all(Words().kind(kind)[0].term for kind in kinds)


@given(
    st.lists(
        st.floats(-1e3, 1e3).flatmap(lambda x: st.floats(0, 10).map(lambda d: Estimate(x, x - d, x + d))),
        min_size=1,
        max_size=5,
    )
)
def test_a_chart_is_within_its_width_and_in_order(estimates: list[Estimate]) -> None:
    chart = chart_of([Interval("n", "", "", "scheme", one) for one in estimates], "unit")
    assert chart is not None
    for row in chart.rows:
        assert 0 <= row.low <= row.mean <= row.high <= 100
    assert all(0 <= at <= 100 for _, at in chart.ticks)
    assert 2 <= len(chart.ticks) <= 7 or max(abs(e.mean) for e in estimates) < 1e-6
    assert "0" in [label for label, _ in chart.ticks]


def test_an_estimate_without_an_interval_is_a_point() -> None:
    chart = chart_of([Interval("n", "", "", "scheme", Estimate(1.0, math.nan, math.nan))], "unit")
    assert chart is not None
    assert chart.rows[0].low == chart.rows[0].mean == chart.rows[0].high
    assert chart_of([], "unit") is None
