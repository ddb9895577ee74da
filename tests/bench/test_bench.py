"""The benchmark end to end at smoke size, and its statistics."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest

from creditflow import credit
from creditflow.train.bench.statistics import bootstrap
from creditflow.train.bench.suites import open_suite
from creditflow.train.cli import main
from creditflow.wrappers.jsonl import read_groups

pytest.importorskip("matplotlib", reason="plots need the 'bench' extra")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    assert main(["bench", "--preset", "smoke", "--workers", "1", "--out", str(folder)]) == 0
    return folder


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.tags, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]

    def handle_data(self, data):
        self.text += data


def test_results_are_written_as_json_with_their_provenance(out):
    data = json.loads((out / "results.json").read_text())
    assert data["results_version"] == 1
    assert {"command", "commit", "python", "numpy", "seed"} <= set(data["provenance"])
    (suite,) = data["suites"]
    assert [row["score"]["scheme"] for row in suite["rows"]] == list(credit.names(given=()))


def test_every_scheme_starts_from_the_same_rollouts(out):
    (suite,) = json.loads((out / "results.json").read_text())["suites"]
    assert len({row["first"] for row in suite["rows"]}) == 1
    assert len({row["curve"][0] for row in suite["rows"]}) == 1


def test_the_recorded_log_can_be_read_back(out):
    (log,) = out.glob("rollouts-*.jsonl.gz")
    assert len(read_groups(log)) == 3


def test_a_second_run_gives_the_same_numbers(out, tmp_path):
    main(["bench", "--preset", "smoke", "--workers", "1", "--out", str(tmp_path)])

    def numbers(folder):
        (suite,) = json.loads((folder / "results.json").read_text())["suites"]
        for row in suite["rows"]:
            del row["score"]["seconds_per_thousand_turns"]
        return suite

    assert numbers(tmp_path) == numbers(out)


def test_the_report_loads_nothing_and_runs_nothing(out):
    page = Page()
    page.feed((out / "report.html").read_text())
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert "script" not in page.tags
    assert "graphgpo" in page.text


def test_the_report_escapes_what_it_shows(tmp_path):
    from creditflow.train.bench.report import write_report

    path = tmp_path / "report.html"
    write_report([], {}, {"command": "<script>alert(1)</script>"}, path)
    page = Page()
    page.feed(path.read_text())
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text


def test_suites_spread_their_tasks_over_the_panel():
    suite = open_suite("sokoban", 10)
    lengths = [len(task.content["xsb"]) for task in suite.tasks]
    assert len({task.task_id for task in suite.tasks}) == 10
    assert len(set(lengths)) > 1


def test_the_bootstrap_interval_covers_the_mean_and_shrinks_with_data():
    rng = np.random.default_rng(0)
    few, many = bootstrap(rng.random((3, 10))), bootstrap(rng.random((3, 1000)))
    assert few.low < few.mean < few.high
    assert many.high - many.low < few.high - few.low
    assert bootstrap(np.full((2, 5), 0.25)).low == pytest.approx(0.25)


def test_the_bootstrap_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        estimate = bootstrap(rng.normal(1.0, 1.0, (1, 40)), draws=400)
        hits += estimate.low <= 1.0 <= estimate.high
    assert 0.88 <= hits / 200 <= 0.99
