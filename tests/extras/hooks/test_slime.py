"""slime: credit survives its conversion of samples, its split over ranks and its advantage step, none of which is rewritten here.

Its modules import sglang, Megatron and Ray, which need GPUs: empty modules stand in for them, one rank holds whole sequences.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.contract import CASES, ContractCase, OnTokens, check_end
from creditflow.train.adapters.slime import credit_rewards
from creditflow.wrappers.credit.base import Scheme

pytestmark = [pytest.mark.slime, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # theirs, on import
pytest.importorskip(
    "slime", reason="no slime: not on PyPI; SLIME_SOURCE names a checkout of github.com/THUDM/slime (624b824)"
)
ABSENT = ("sglang", "megatron", "ray", "sglang_router", "transformer_engine")


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for every name below ``ABSENT``."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        return (
            importlib.machinery.ModuleSpec(fullname, self, is_package=True)
            if fullname.split(".")[0] in ABSENT
            else None
        )

    def create_module(self, spec: Any) -> ModuleType:
        module: Any = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        if spec.name == "ray":
            module.remote = lambda chosen: chosen
            module.put = lambda value, **_: value
        return module  # type: ignore[no-any-return]  # a mock

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


@pytest.fixture(scope="module")
def slime() -> Iterator[Any]:
    """slime's rollout manager and advantage step."""
    finder, before = _Absent(), set(sys.modules)
    sys.meta_path.insert(0, finder)
    try:
        from megatron.core import mpu
        from slime.backends.megatron_utils import loss
        from slime.ray import rollout

        mpu.is_pipeline_last_stage.return_value = True
        mpu.get_context_parallel_world_size.return_value = 1
        yield SimpleNamespace(manager=rollout.RolloutManager, split=rollout, step=loss.compute_advantages_and_returns)
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if name.split(".")[0] in (*ABSENT, "slime"):
                del sys.modules[name]


def samples_of(case: ContractCase) -> list[Any]:
    """slime's samples: the prompt is what was shown before the first completion, the response is the rest."""
    from slime.utils.types import Sample

    samples = []
    for i, episode in enumerate(case.episodes):
        (prompt, first), *later = case.counts(episode)
        mask = [1] * first + [value for shown, sampled in later for value in [0] * shown + [1] * sampled]
        samples.append(
            Sample(
                group_index=[group.group_id for group in case.groups].index(episode.group_id), index=i,
                tokens=list(range(prompt + len(mask))), response_length=len(mask), loss_mask=mask,
                reward=episode.episode_return, metadata={"creditflow": case.record(episode)}, status=Sample.Status.COMPLETED,
            )
        )  # fmt: skip
    return samples


def test_the_end_passes_the_contract_through_slimes_own_code(slime: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def end(case: ContractCase, scheme: Scheme) -> OnTokens:
        samples = samples_of(case)
        n = len(samples)
        args = SimpleNamespace(
            creditflow_scheme=scheme.name, reward_key=None, global_batch_size=n, use_rollout_logprobs=False, kl_coef=0.0,
            custom_advantage_function_path="creditflow.train.adapters.slime.write_advantages", use_opd=False,
            normalize_advantages=False, advantage_estimator="grpo", kl_loss_type="k1", use_unbiased_kl=False,
        )  # fmt: skip
        order = list(range(n))[::-1]  # a rank's rows stand in another order
        monkeypatch.setattr(slime.split, "build_dp_schedule", lambda *_, **__: ([order], [[[0]]], [1], [n]))
        monkeypatch.setattr(slime.split, "Box", lambda value: value)
        manager = SimpleNamespace(
            args=args, custom_convert_samples_to_train_data_func=None, custom_reward_post_process_func=credit_rewards,
            train_parallel_config={"dp_size": 1},
        )  # fmt: skip
        manager._post_process_rewards = lambda given: slime.manager._post_process_rewards(manager, given)
        data = slime.manager._convert_samples_to_train_data(manager, samples)
        [rank] = slime.manager._split_train_data_by_dp(manager, data)
        rank["log_probs"] = [torch.zeros(length) for length in rank["response_lengths"]]
        slime.step(args, rank)
        assert all(isinstance(value, float) for value in rank["rewards"])  # which slime logs the mean of
        per_turn: list[list[list[float]]] = [[] for _ in samples]
        for i, row, mask in zip(order, rank["advantages"], rank["loss_masks"], strict=True):
            assert not row[mask == 0].any()
            values = iter(row[mask == 1].tolist())
            counts = case.counts(case.episodes[i])
            per_turn[i] = [[next(values) for _ in range(sampled)] for _, sampled in counts]
        return per_turn

    check_end(end)


def test_samples_that_are_not_whole_episodes_are_refused() -> None:
    args = SimpleNamespace(reward_key=None)
    samples = samples_of(CASES[0])
    samples[0].loss_mask = [1] * samples[0].response_length
    with pytest.raises(TrajectoryError, match="2 turns and 1 sampled completions"):
        credit_rewards(args, samples)
    samples = samples_of(CASES[0])
    samples[1].loss_mask = [0] * samples[1].response_length  # slime leaves it out of the loss
    assert not any(credit_rewards(args, samples)[1][1])
    del samples[1].metadata["creditflow"]
    with pytest.raises(TrajectoryError, match="has no record"):
        credit_rewards(args, samples)
