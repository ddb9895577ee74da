"""A sum of schemes trains by its text in the settings, and gives the credit of the manual sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.train.run.metrics_log import read_metrics
from creditflow.wrappers.records.group import Group


def test_a_sum_trains_by_its_text(
    trainer_of: Callable[..., Any], config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(config, "credit.scheme=0.5*grpo + 0.5*gigpo", "credit.parameters={discount: 0.9}")
    scored = list[tuple[Group, credit.Credit]]()
    assign = credit.Sum.assign_batch

    def kept(self: credit.Sum, groups: list[Group]) -> list[credit.Credit]:
        result = assign(self, groups)
        scored.extend(zip(groups, result, strict=True))
        return result

    monkeypatch.setattr(credit.Sum, "assign_batch", kept)
    trainer.run()
    assert any("loss" in record for record in read_metrics(trainer.folder / "metrics.jsonl"))
    for group, given in scored:
        grpo, gigpo = (credit.make(name, **options).assign(group) for name, options in PARTS)
        np.testing.assert_array_equal(given.flat_advantages, 0.5 * grpo.flat_advantages + 0.5 * gigpo.flat_advantages)
    assert scored


PARTS: list[tuple[str, dict[str, Any]]] = [("grpo", {}), ("gigpo", {"discount": 0.9})]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("credit.scheme=0.5*grpo + 0.5*gigp",), "did you mean 'gigpo'"),
        (("credit.scheme=grpo ++ gigpo",), "one plus sign"),
        (("credit.scheme=grpo + mt_ppo",), "configure a critic"),
        (("credit.scheme=grpo + gigpo", "credit.parameters={merge: hf:NOWHERE, key: text}"), "is a sum"),
        (("credit.scheme=grpo + stateless", "credit.overlong={max_tokens: 9, margin: 3}"), "'stateless' does not read"),
    ],
)
def test_a_sum_that_cannot_be_trained_is_refused_before_the_run(
    trainer_of: Callable[..., Any], config: dict[str, Any], settings: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        trainer_of(config, *settings)
