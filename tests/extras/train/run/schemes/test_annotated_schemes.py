"""Every scheme over annotations trains by its name, from annotators that run beside the rollouts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.toy_success import success_folder
from helpers.servers.loopback import Exchange
from helpers.servers.replies import serving

from creditflow.train.run.metrics_log import read_metrics
from creditflow.wrappers.records.group import Group

SEARCH: dict[str, Any] = {
    "env": {
        "name": "wikisearch",
        "options": {
            "world": {"articles": 200, "questions": 6, "seed": 3}, "dialect": "plain", "max_steps": 3,
            "top_k": 1, "max_passage_chars": 80,
        },
    },
    "prompting": {"prompt": "terse-v1", "dialect": "bare", "history": "append"},
    "rollout": {"tasks": 2, "group_size": 3, "max_new_tokens": 24},
}  # fmt: skip
SFT = {"episodes": 12, "steps": 12, "batch_tokens": 2000, "noise": 0.3, "optimizer": {"lr": 4e-3}}


@pytest.fixture
def judge() -> Iterator[str]:
    """A served model that scores a step by the number of steps before it."""

    def score(request: Exchange, body: Any) -> None:
        case = json.loads(body["messages"][-1]["content"])
        request.send({"choices": [{"message": {"content": str(min(len(case["steps"]), 10))}}]})

    with serving(score) as url:
        yield f"judge:{url}#judge"


@pytest.mark.parametrize("scheme", ["pica", "prm", "igpo", "mt_ppo", "ppo_gae"])
def test_a_scheme_over_annotations_trains_by_its_name(
    scheme: str,
    trainer_of: Callable[..., Any],
    config: dict[str, Any],
    tmp_path: Path,
    judge: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = trainer_of(config | SEARCH | {"sft": SFT, "update": {"iterations": 0}}, f"out={tmp_path / 'sft'}")
    begin.run()
    policy = begin.folder / "model"
    writers = {
        "pica": lambda: [f"success:{success_folder(tmp_path / 'success', positions=4096)}"],
        "prm": lambda: [judge],
        "igpo": lambda: [f"likelihood:{policy}"],
    }
    settings = config | SEARCH | {"model": {"path": str(policy)}, "sft": {"episodes": 0}}
    settings["update"] = {"iterations": 2, "optimizer": {"lr": 1e-3}}
    settings["credit"] = {"scheme": scheme, "annotators": writers.get(scheme, list)()}
    critic = ["critic.kind=shared"] if scheme in ("mt_ppo", "ppo_gae") else []
    run = trainer_of(settings, *critic)
    seen: list[Group] = []
    scored = type(run.scheme).assign_batch

    def assign_batch(self: Any, groups: Any) -> Any:
        seen.extend(groups)
        return scored(self, groups)

    monkeypatch.setattr(type(run.scheme), "assign_batch", assign_batch)
    run.run()
    assert [r["kind"] for r in read_metrics(run.logger.path)].count("iteration") == 2
    assert len(seen) == 4
    for group in seen:
        assert not run.scheme.undefined_on(group)
        for name in run.scheme.needs:
            assert np.isfinite(group.annotation(name)).all()
            assert all(name in member.provenance for member in group.trajectories)
