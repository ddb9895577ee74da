"""The exact oracle of a site against breadth-first search over the environment's own listed actions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import creditflow
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.site import SiteOptions

TITLES = ("Ada Smith", "Bo Dahl", "Old Town", "Mill", "River Run", "Cora Lee")
MOST = 5  # steps of an episode


def made(folder: Path, seed: int, *, golden: bool) -> WikiSearchEnv:
    """A site of six pages that mention each other at random, and a question with golden passages or with an answer alone."""
    rng = np.random.default_rng(seed)

    def one(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    def some(names: Sequence[str], count: int) -> list[str]:
        return [names[i] for i in rng.permutation(len(names))[:count]]

    rows = [
        {"id": f"{title}-{i}", "title": title, "page": title.lower(),
         "text": f"{one('built', 'wrote', 'saw')} {' '.join(some(TITLES, one(0, 1, 2)))} thing {one(*range(10))}"}
        for title in TITLES
        for i in range(one(1, 1, 2, 5))
    ]  # fmt: skip
    question = Question(
        id="q", text=f"What of {one(*TITLES)} and {one(*TITLES)}?", answers=(one(*TITLES),),
        supporting=tuple(some([row["id"] for row in rows], 1)) if golden else (),
    )  # fmt: skip
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "questions.jsonl").write_text(json.dumps(question.to_json()), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        site = SiteOptions(page_passages=one(1, 2, 3), snippet=one(5, 40))
        patch.setattr("creditflow.envs.wikisearch.env.SITE", site)
        env = creditflow.make(
            "wikisearch", questions=str(folder / "questions.jsonl"), corpus=str(folder / "corpus.jsonl"), dialect="browse",
            top_k=one(1, 2), max_steps=MOST,
        ).unwrapped  # fmt: skip
    assert isinstance(env, WikiSearchEnv)
    return env


def fewest_steps(env: WikiSearchEnv, start: Any) -> int | None:
    """Steps to the correct answer by listed actions; None if an episode is too short for it."""
    states, seen = [start], set[str]()
    for steps in range(1, MOST + 1):
        after = []
        for state in states:
            _, info = env.set_state(state)
            for action in info["admissible_actions"]:
                env.set_state(state)
                _, reward, terminated, truncated, _ = env.step(action)
                if terminated and reward == 1.0:
                    return steps
                key = f"{sorted(env.episode.evidence)} {env.episode.last_result}"
                if not (terminated or truncated) and key not in seen:
                    seen.add(key)
                    after.append(env.get_state())
        states = after
    return None


@pytest.mark.parametrize("golden", [True, False])
def test_its_distance_is_that_of_a_search_over_all_listed_actions(golden: bool, tmp_path: Path) -> None:
    known = 0
    for seed in range(8):
        folder = tmp_path / str(seed)  # corpora are kept by path
        folder.mkdir()
        env = made(folder, seed, golden=golden)
        env.reset(seed=0)
        assert env.oracle.exact
        start = env.get_state()
        expected, distance = fewest_steps(env, start), env.oracle.distance(start)
        assert distance == expected or (expected is None and distance > MOST)
        known += expected is not None
    assert known >= 3
