"""The language model of the study of WebShop's split: a stored job run again, and what the model reads and may do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from evidence.webshop_split import language_models, run

ROWS = run.rows_of(Path(run.__file__).with_name("results.jsonl"))


def test_the_small_job_run_again_gives_its_stored_numbers() -> None:
    stored = {str(row["job"]): row for row in ROWS}
    (small, *others) = language_models.jobs()
    assert len(others) == len(run.SHOPS) * len(run.SEEDS)
    learner = language_models.learner_of(small["shop"])
    again = language_models.measure(learner, small["seed"], steps=run.SAMPLE_STEPS)
    assert again == {name: stored[str(small)][name] for name in again}


def test_a_prompt_has_the_wish_and_the_number_of_every_action() -> None:
    player = run.Player(run.open_shop("sample"))
    first = player.first(0)
    results = player.step(first, 0)
    assert isinstance(results, run.Node)
    for seen in (first.seen, results.seen):
        prompt = language_models.prompt_of(seen)
        assert prompt.startswith(" ".join(run.words_of(seen.wish)))
        assert [word for word in prompt.split() if word.startswith("#")] == [f"#{i}" for i in range(len(seen.actions))]
    assert " fits " in language_models.prompt_of(results.seen)


def test_a_model_chooses_among_the_listed_actions_and_a_step_raises_the_one_with_an_advantage() -> None:
    learner = language_models.learner_of("sample")
    seen = learner.player.first(0).seen
    probabilities = learner.logs(learner.start, [seen]).exp()[0]
    assert probabilities[: len(seen.actions)].sum() == torch.tensor(1.0)
    assert not probabilities[len(seen.actions) :].any()
    episodes = learner.episodes(learner.start, [0] * 32, np.random.default_rng(0))
    assert all(len(turns) <= run.TURNS for _, turns in episodes)
    assert learner.learn([], 0, 1e-3).model.state_dict().keys() == learner.start.model.state_dict().keys()
