"""A malformed payload of a search task is a creditflow error in every reward, and documents must be a mapping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from creditflow import credit
from creditflow.envs.errors import CreditflowError
from creditflow.envs.wikisearch.grading.rewards import REWARDS, named_reward
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.episode_rewards import with_reward_values
from creditflow.wrappers.records.group import Group

JUNK: list[Any] = [
    None, True, 3, -1, 2.5, float("nan"), "x", "", [], {}, [[]], ["x"], {"x": 1}, {1: 2}, [{}], [{"name": 3}], [None], 10**400,
    {"a": {"title": 1, "text": 2}}, {"d0": []}, [["a", "b"]], [["a", "b", 3]], [{"question": 3}], [{"title": "t", "text": "x"}],
]  # fmt: skip


@pytest.mark.parametrize("name", REWARDS)
def test_rewards_on_malformed_payloads_raise_only_creditflow_errors(name):
    group = random_group(np.random.default_rng(0))
    for key in ("answers", "text"):
        for junk in JUNK:
            try:
                with_reward_values(Group(group.trajectories, {"answers": ["a"], key: junk}), {name: named_reward(name)})
            except CreditflowError as error:
                assert str(error)


def test_documents_given_as_a_list_are_rejected_with_what_was_expected():
    scheme = credit.make("stepsearch")
    group = random_group(np.random.default_rng(0), values=scheme.needs, token_values=scheme.requires_tokens)
    listed = [{"id": name, **text} for name, text in group.task["documents"].items()]
    with pytest.raises(CreditflowError, match="'documents' must map ids"):
        scheme.assign(Group(group.trajectories, {**group.task, "documents": listed}))
