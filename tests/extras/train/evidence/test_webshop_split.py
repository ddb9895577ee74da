"""The language model of the study of WebShop's split: a stored job run again, and what the model reads and may do."""

from __future__ import annotations

from pathlib import Path

from evidence.webshop_split import language_models, run

ROWS = run.rows_of(Path(run.__file__).with_name("results.jsonl"))


def test_the_small_job_run_again_gives_its_stored_numbers() -> None:
    stored = {str(row["job"]): row for row in ROWS}
    (small, *others) = language_models.jobs()
    assert len(others) == len(run.SHOPS) * len(run.SEEDS)
    learner = language_models.learner_of(small["shop"])
    again = language_models.measure(learner, small["seed"], steps=run.SAMPLE_STEPS)
    assert again == {name: stored[str(small)][name] for name in again}
