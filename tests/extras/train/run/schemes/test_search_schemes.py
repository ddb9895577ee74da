"""Schemes that read texts and task payloads run in the trainer, on rollouts of a model that searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from creditflow.train.run.metrics_log import read_metrics
from creditflow.wrappers.records.group import Group

SEARCH: dict[str, Any] = {
    "env": {
        "name": "wikisearch",
        "options": {
            "world": {"articles": 200, "questions": 6, "seed": 3}, "dialect": "plain", "max_steps": 4,
            "top_k": 1, "max_passage_chars": 200,
        },
    },
    "prompting": {"prompt": "terse-v1", "dialect": "bare", "history": "append"},
    "sft": {"episodes": 12, "steps": 12, "batch_tokens": 2000, "noise": 0.3, "optimizer": {"lr": 4e-3}},
    "rollout": {"tasks": 2, "group_size": 3, "max_new_tokens": 24},
    "update": {"iterations": 1, "optimizer": {"lr": 1e-3}},
}  # fmt: skip


@pytest.mark.parametrize("scheme", ["gdcr", "sapo", "egrpo", "stepsearch"])
def test_a_scheme_that_reads_texts_scores_the_models_own_rollouts(
    scheme: str, trainer_of: Callable[..., Any], config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer_of(config | SEARCH, f"credit.scheme={scheme}")
    seen: list[Group] = []
    scored = type(run.scheme).assign

    def assign(self: Any, group: Group) -> Any:
        seen.append(group)
        return scored(self, group)

    monkeypatch.setattr(type(run.scheme), "assign", assign)
    run.run()
    assert [r["kind"] for r in read_metrics(run.logger.path)].count("iteration") == 1
    assert len(seen) == 2
    assert all(not run.scheme.undefined_on(group) for group in seen)
    if run.scheme.texts:
        assert all(turn.observation and turn.response for group in seen for turn in group.turns)
