"""Synthesised questions as tasks: the expert answers them, and entity credit works on rollouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.worlds.film_corpus import write_films

import creditflow
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.train.cli import main
from creditflow.wrappers.credit import make as make_scheme
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.records.jsonl import read_groups


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("made")
    corpus, out = write_films(folder / "films.jsonl"), folder / "q.jsonl"
    assert main(["data", "synthesize", "--corpus", str(corpus), "--limit", "20", "--seed", "3", "--out", str(out)]) == 0
    return corpus, out


def test_the_expert_answers_every_question(made: tuple[Path, Path]) -> None:
    corpus, out = made
    env = creditflow.make("wikisearch", questions=str(out), corpus=str(corpus)).unwrapped
    assert isinstance(env, WikiSearchEnv)
    ids = env.tasks.task_ids()
    assert len(ids) == 20
    for task_id in ids:
        _, info = env.reset(options={"task_id": task_id})
        reward, searches = 0.0, 0
        while not info["stop_reason"]:
            actions = env.oracle.optimal_actions(env.get_state())
            _, step_reward, _, _, info = env.step(actions[0])
            reward += float(step_reward)
            searches += 1
        assert reward == 1.0
        assert info["evidence"] == info["evidence_total"] >= 2
        assert searches >= 3


def test_entity_credit_works_on_rollouts(made: tuple[Path, Path], tmp_path: Path) -> None:
    corpus, out = made
    log = tmp_path / "log.jsonl"
    sets = ["--env-set", f"questions={out}", "--env-set", f"corpus={corpus}"]
    command = ["rollout", "--env", "wikisearch", *sets, "--agent", "noisy:0.4", "--limit", "6", "--group-size", "4"]
    assert main([*command, "--out", str(log)]) == 0
    groups = read_groups(log)
    assert len(groups) == 6
    for group in groups:
        graph = EntityGraph.from_task(group.task)
        distances = graph.distances()
        assert distances[graph.answer] == 0.0
        assert np.isfinite(distances).all()
        assert distances.max() >= 2.0
    for name in ("gdcr", "sapo", "egrpo"):
        scored = [make_scheme(name).assign(group) for group in groups]
        assert all(np.isfinite(credit.flat_step_advantages).all() for credit in scored)
    rewards = [make_scheme("gdcr").assign(group).flat_step_rewards for group in groups]
    assert all(values.max() >= 1.0 for values in rewards)  # the answer was retrieved in some rollout of every group
