"""Forked turns of the fair test in small worlds, their score, and the parts of a study."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from evidence.pica.fair.data import Continuations, chains, env_options, rollouts
from evidence.pica.fair.parts import Parts
from evidence.pica.fair.scoring import advantages_of, pair_accuracy, verdict
from evidence.pica.fair.states import ForkedTurn, forked_turns

from creditflow.agents.scripted import ExpertAgent, NoisyExpert
from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import bare_env
from creditflow.envs.wikisearch.questions import Question

WORLD, QUESTIONS, K = 301, 40, 3


@pytest.fixture(scope="module")
def groups():
    return rollouts(WORLD, QUESTIONS, chains(WORLD, QUESTIONS)[:8], NoisyExpert(0.4), 1)


@pytest.fixture(scope="module")
def pairs(groups):
    return list(forked_turns(WORLD, QUESTIONS, groups, NoisyExpert(0.4), K, played=False))


def test_pairs_alternate_and_share_state_and_recency(pairs) -> None:
    assert len(pairs) >= 6
    for right, wrong in zip(pairs[0::2], pairs[1::2], strict=True):
        assert (right.role, wrong.role) == ("right", "wrong")
        assert (right.question, right.recency, right.before) == (wrong.question, wrong.recency, wrong.before)
        assert right.turns[:-1] == wrong.turns[:-1]
        assert right.turns[-1] != wrong.turns[-1]
    assert all(len(turn.before) == len(turn.after) == K for turn in pairs)


def test_forked_turns_are_reproducible_and_survive_json(groups, pairs) -> None:
    again = list(forked_turns(WORLD, QUESTIONS, groups, NoisyExpert(0.4), K, played=False))
    assert again == pairs
    assert [ForkedTurn.from_json(turn.to_json()) for turn in pairs] == pairs


def test_the_outcome_after_the_last_turn_is_the_episodes_own(groups) -> None:
    played = list(forked_turns(WORLD, QUESTIONS, groups, NoisyExpert(0.4), K, played=True))
    lasts = {turn.question: turn for turn in played}
    for group in groups:
        assert set(lasts[group.task_id].after) == {int(group.trajectories[0].success)}
    ours = [turn for turn in played if turn.question == groups[0].task_id]
    assert all(a.after == b.before for a, b in pairwise(ours))  # one state, one set of continuations
    found = verdict(played, {"model": np.arange(len(played), dtype=float), "pairs": np.zeros(len(played))}, ["pairs"])
    assert found["turns"] == len(played)
    assert found["questions"] == len(groups)


def test_an_expert_that_has_enough_turns_succeeds_from_everywhere() -> None:
    task, env = chains(WORLD, QUESTIONS)[0], bare_env("wikisearch", env_options(WORLD, QUESTIONS))
    env.reset(seed=0, options={"task_id": task.task_id})
    ours = Continuations(env_options(WORLD, QUESTIONS), ExpertAgent(), 2)
    assert ours.after(env.get_state(), [], np.random.default_rng(0)).tolist() == [1.0, 1.0]


def test_worlds_share_no_fact_and_few_names() -> None:
    def facts(seed: int) -> set[tuple[str, str, str]]:
        return {edge for task in chains(seed, 300) for edge in Question.from_json(task.content).edges}

    trained, tested = facts(101), facts(WORLD)
    assert not trained & tested
    names = [{subject for subject, _, _ in one} for one in (trained, tested)]
    assert len(names[0] & names[1]) < 0.12 * len(names[1])
    assert all(len(Question.from_json(task.content).steps) in (2, 3) for task in chains(WORLD, 300))


def test_a_perfect_score_wins_every_pair_and_recency_none(pairs) -> None:
    right = np.array([float(turn.role == "right") for turn in pairs])
    found = verdict(pairs, {"model": right, "recency": np.zeros(len(pairs))}, ["recency"])
    assert found["auc"]["model"] == [1.0, 1.0, 1.0]
    assert found["auc"]["recency"] == [0.5, 0.5, 0.5]
    assert found["pair_accuracy"]["lead over recency"] == [0.5, 0.5, 0.5]
    assert found["pairs"] == len(pairs) // 2
    assert pair_accuracy(np.array([1.0, 2.0, 3.0, 3.0])) == 0.25
    assert advantages_of(pairs).mean.shape == (len(pairs),)


def test_a_part_is_made_once_and_not_at_all_if_making_it_fails(tmp_path) -> None:
    parts, made = Parts(tmp_path / "study", {"worlds": (1, 2)}), []

    def make() -> dict[str, int]:
        made.append(1)
        return {"n": len(made)}

    assert parts.json("one", make)["n"] == parts.json("one", make)["n"] == 1
    with pytest.raises(ZeroDivisionError):
        parts.json("two", lambda: {"n": 1 // 0})
    assert {path.name for path in parts.folder.iterdir()} == {"one.json", "sizes.json"}
    assert Parts(parts.folder, {"worlds": (1, 2)}).seconds().keys() == {"one"}


def test_parts_of_other_sizes_are_not_continued(tmp_path) -> None:
    Parts(tmp_path, {"worlds": (1,), "steps": 2}).json("one", lambda: {"n": 1})
    with pytest.raises(ConfigError, match=r"another study \(steps in sizes\.json\)"):
        Parts(tmp_path, {"worlds": (1,), "steps": 3})
    with pytest.raises(ConfigError, match="units, worlds in"):
        Parts(tmp_path, {"units": 5, "steps": 2})
