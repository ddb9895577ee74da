"""The report's first sentence, its words, and that numbers have intervals or say why not."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.bench.exact.tasks import SOKOBAN_KINDS
from creditflow.train.bench.report.conclusions import conclusions
from creditflow.train.bench.report.contrasts import Leader
from creditflow.train.bench.report.html.chart import chart_of
from creditflow.train.bench.report.html.terms import DEFINITIONS, Words, about_method
from creditflow.train.bench.report.html.verdict import _sentence, headline
from creditflow.train.bench.report.regimes import Verdict, _of_studies
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import suite_tables
from creditflow.train.bench.shared.tasks import SHARED_KINDS
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import ClusteredMean, Contrast

INTERVAL = re.compile(r"\[[-+−]?[\d.]+, [-+−]?[\d.]+\]|± [\d.]+")
NUMBER = re.compile(r"[-+−]?\d*\.\d+")


def verdict(name: str, tied: tuple[str, ...] = (), *, p: float = 0.001, faster: tuple[str, ...] = ()) -> Verdict:
    lead = Contrast(ClusteredMean(0.1, 0.01, 5.0), p, p)
    return Verdict("r", "t", "k", "b", "s", Leader(name, Estimate(0.5, 0.4, 0.6), tied, math.nan), lead, None, faster)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([], "Nothing is compared: no learning curves of two schemes or more were run."),
        ([verdict("a")], "a learns fastest in 1 of 1 comparison by a margin that chance does not explain."),
        ([verdict("a")] * 2 + [verdict("b")], "a learns fastest in 2 of 3 comparisons, b in 1 by a margin that chance does not explain."),
        ([verdict("a"), verdict("a", ("b",))], "a learns fastest in 1 of 2 comparisons by a margin that chance does not explain; it leads in 1 more, but others may be as good."),
        ([verdict("a", ("b",))], "a leads in the one comparison, but others may be as good."),
        ([verdict("a", p=0.5)], "No scheme learns clearly faster than the baseline."),
        ([verdict("a"), verdict("b", p=0.5)], "a learns fastest in 1 of 2 comparisons by a margin that chance does not explain; in 1 of 2 comparisons no scheme learns clearly faster than the baseline."),
        ([verdict("a", p=0.5)] * 2, "In 2 of 2 comparisons no scheme learns clearly faster than the baseline."),
        ([verdict("a", ("b", "c"), p=0.5, faster=("b",))], "In the one comparison the lead of the best mean over the baseline may be chance, while b learns clearly faster than it."),
        ([verdict("a"), verdict("b", p=0.5), verdict("c", p=0.5, faster=("a", "b"))], "a learns fastest in 1 of 3 comparisons by a margin that chance does not explain; in 1 of 3 comparisons the lead of the best mean over the baseline may be chance, while a and b learn clearly faster than it; in 1 of 3 comparisons no scheme learns clearly faster than the baseline."),
    ],
)  # fmt: skip
def test_the_verdict_is_a_sentence(found: list[Verdict], sentence: str) -> None:
    assert _sentence(found) == sentence


def test_a_scheme_behind_a_noisy_best_mean_can_be_the_one_that_is_separated_from_the_baseline() -> None:
    rng = np.random.default_rng(0)
    runs = {
        "grpo": np.zeros((8, 5)),
        "noisy": 0.05 + rng.normal(0.0, 0.2, (8, 1)) + np.zeros((8, 5)),
        "steady": 0.03 + rng.normal(0.0, 0.002, (8, 5)),
    }
    runs["noisy"] += 0.05 - runs["noisy"].mean()
    study = Study(
        "shared policy", "kind", "distinct", 4, 8, "", {"area": {name: one.tolist() for name, one in runs.items()}}
    )
    [found] = _of_studies([study], list(runs))
    assert found.leader.name == "noisy" and found.lead is not None and not found.lead.separates
    assert found.faster == ("steady",)
    assert "while steady learns clearly faster" in _sentence([found])


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
    kinds = {*SHARED_KINDS, *SOKOBAN_KINDS} - {"fresh", "sokoban-fresh"}  # which are shown as keys of another kind
    assert all(Words().kind(kind)[0].term for kind in kinds)


@given(
    st.lists(
        st.floats(-1e3, 1e3).flatmap(lambda x: st.floats(0, 10).map(lambda d: Estimate(x, x - d, x + d))),
        min_size=1,
        max_size=5,
    )
)
def test_a_chart_is_within_its_width_and_in_order(estimates: list[Estimate]) -> None:
    chart = chart_of([("n", "", "", "scheme", one) for one in estimates], "unit")
    assert chart is not None
    for row in chart.rows:
        assert 0 <= row.low <= row.mean <= row.high <= 100
    assert all(0 <= at <= 100 for _, at in chart.ticks)
    assert 2 <= len(chart.ticks) <= 7 or max(abs(e.mean) for e in estimates) < 1e-6
    assert "0" in [label for label, _ in chart.ticks]


def test_an_estimate_without_an_interval_is_a_point() -> None:
    chart = chart_of([("n", "", "", "scheme", Estimate(1.0, math.nan, math.nan))], "unit")
    assert chart is not None
    assert chart.rows[0].low == chart.rows[0].mean == chart.rows[0].high
    assert chart_of([], "unit") is None
