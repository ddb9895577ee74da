"""Evaluations may have other options of the environment than the episodes that train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.dry_run import describe

SEARCH = (
    "env.name=wikisearch", "env.options={world: {articles: 400, questions: 16, seed: 3}, max_steps: 2, top_k: 2}",
    "prompting.prompt=search-v1", "prompting.dialect=bare", "sft.episodes=0", "evaluation.panel=", "evaluation.final_panel=",
)  # fmt: skip


def test_evaluations_have_their_own_options(
    trainer_of: Any, config: dict[str, Any], settings_of: Any, tmp_path: Path
) -> None:
    own = "evaluation.env_options={top_k: 1, max_steps: 1}"
    run = trainer_of(config, *SEARCH, own, "update.iterations=0")
    trained = run.rollout_engine._make_group().members[0].base
    evaluated = run.eval_engine._make_group().members[0].base
    assert (trained.budget.top_k, trained.max_steps) == (2, 2)
    assert (evaluated.budget.top_k, evaluated.max_steps) == (1, 1)
    wrong = settings_of(config, "evaluation.env_options={max_step: 1}", f"out={tmp_path / 'wrong'}")
    with pytest.raises(ConfigError, match="did you mean 'max_steps'"):
        describe(wrong)
