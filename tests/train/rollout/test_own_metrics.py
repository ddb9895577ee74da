"""Metrics of the user: loaded where they are named, averaged over tasks with an interval, and blamed for their own failures."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.plugins import write_package

from creditflow.agents.scripted import ExpertAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.evaluation import evaluate
from creditflow.train.rollout.own_metrics import MetricError, load_metric, make_metric, measured, metric_names
from creditflow.train.rollout.plugins import load_plugin
from creditflow.train.statistics import normal_interval
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.trajectory import Trajectory, Turn

pytestmark = pytest.mark.usefixtures("forgotten")

SOURCE = """
class Length:
    name = "length"
    def measure(self, trajectory):
        return len(trajectory.turns)

class Broken:
    name = "broken"
    def measure(self, trajectory):
        return trajectory.nothing

class Infinite:
    name = "infinite"
    def measure(self, trajectory):
        return float("inf")

class Needy:
    name = "needy"
    def __init__(self, size): self.size = size
    def measure(self, trajectory):
        return 0.0

class Nameless:
    def measure(self, trajectory):
        return 0.0

class Odd(Nameless):
    name = "two words"

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(SOURCE)
    return tmp_path / "mine.py"


def test_a_metric_is_averaged_over_tasks_with_its_interval(file):
    metric = make_metric(load_metric(f"{file}:Length"))
    tasks = SokobanEnv(panel="small-v1:valid").tasks
    chosen = [tasks.get(task_id) for task_id in tasks.task_ids()[:4]]
    engine = RolloutEngine(lambda: GroupEnv("sokoban", size=1, panel="small-v1:valid"))
    found = evaluate(engine, ExpertAgent(), None, chosen, samples=0, seed=0, metrics=[metric])
    lengths = found.task_metrics["length"]
    assert lengths.mean() == found.turns
    summary = found.summary()
    assert (summary["metric.length_ci_low"], summary["metric.length_ci_high"]) == normal_interval(lengths)
    assert f"length {np.mean(lengths):.3f}" in found.line()


def test_load_takes_it_as_a_plug_in_and_an_installed_one_by_its_name(file, tmp_path, monkeypatch):
    assert load_plugin(f"{file}:Length") == "length"
    site = tmp_path / "site"
    site.mkdir()
    write_package(site, "stranger_metrics", SOURCE, ("creditflow.metrics", "broken", "stranger_metrics:Broken"))
    monkeypatch.syspath_prepend(str(site))
    assert {"broken", "length"} <= {*metric_names()}
    assert make_metric("broken").name == "broken"
    assert "stranger_metrics" in sys.modules


def test_a_metric_that_fails_is_named_with_the_episode(file):
    episode = Trajectory("t7", "g", "task", (Turn("a", "go", "b"),), False, 0.0, "failed", "b")
    for name, message in (("Broken", "AttributeError"), ("Infinite", "finite number, got inf")):
        metric = make_metric(load_metric(f"{file}:{name}"))
        with pytest.raises(MetricError, match=rf"trajectory 't7': .*{message}"):
            measured(metric, [episode])


@pytest.mark.parametrize(
    ("name", "message"),
    [("Nameless", "is not a metric"), ("number", "is not a metric"), ("Odd", "one word"), ("Missing", "unknown name")],
)
def test_what_is_no_metric_is_refused(name, message, file):
    with pytest.raises(ConfigError, match=message):
        load_metric(f"{file}:{name}")


def test_code_is_not_run_by_a_name_alone_and_names_are_suggested(file):
    with pytest.raises(ConfigError, match="runs only if you load it yourself"):
        make_metric(f"{file}:Length")
    load_metric(f"{file}:Length")
    with pytest.raises(ConfigError, match="did you mean 'length'"):
        make_metric("lenght")
    with pytest.raises(ConfigError, match="must take no arguments"):
        make_metric(load_metric(f"{file}:Needy"))
