"""The attention of packed micro-batches as a model of ``transformers`` calls it, and the check of a model before training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.pretrained import pretrained_folder

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.errors import ConfigError
from creditflow.train.policy.batching import plan_rows
from creditflow.train.policy.packing import attention
from creditflow.train.policy.packing.attention import PackedForest, attend_by_forest, check_packing, packed_hidden
from creditflow.train.policy.packing.forest import Forest
from creditflow.train.policy.packing.portable import Layout, portable_attention

FOREST = Forest.of([np.array([1, 2, 3, 4]), np.array([1, 2, 5])])
HEADS, SIZE = 2, 8


def inputs(dtype: Any = torch.float32) -> list[Any]:
    """Queries, keys and values as a model has them: (1, H, T, D)."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, HEADS, len(FOREST), SIZE, generator=generator).to(dtype) for _ in range(3)]


def attend(values: list[Any], **options: Any) -> Any:
    """The attention of one layer over the forest."""
    packed = PackedForest(FOREST, torch.device("cpu"))
    query, key, value = values
    return attention._attention(None, query, key, value, None, forest=packed, **options)[0]


@pytest.mark.parametrize("name", ["sliding_window", "softcap", "s_aux", "position_bias"])
def test_every_argument_that_would_change_the_result_is_rejected_by_its_name(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"no attention with {name}, which.*update\.packing=padded"):
        attend(inputs(), **{name: 0})
    attend(inputs(), **{name: None})


def test_scores_have_the_factor_of_the_model() -> None:
    q, k, v = (one[0].transpose(0, 1) for one in inputs())
    layout = Layout.of(FOREST, torch.device("cpu"))
    for scaling, factor in ((0.3, 0.3), (None, SIZE**-0.5)):
        expected = portable_attention(q, k, v, layout, factor)
        torch.testing.assert_close(attend(inputs(), scaling=scaling), expected[None])


def test_under_autocast_inputs_of_any_type_are_narrow_as_for_the_librarys_attention() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert attend(inputs()).dtype == torch.bfloat16
    assert attend(inputs()).dtype == torch.float32


def test_a_kernel_of_the_device_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def fused(q: Any, k: Any, v: Any, paths: Any, scale: float, kernel: str) -> Any:
        asked.append((q.shape, k.shape, v.shape, paths.longest_key, scale, kernel))
        return q

    monkeypatch.setattr(attention, "fused_kernel", lambda _q: "fast")
    monkeypatch.setattr(attention, "fused_attention", fused)
    found = attend(inputs(), scaling=0.3)
    shape = (len(FOREST), HEADS, SIZE)
    assert asked == [(shape, shape, shape, 4, 0.3, "fast")]
    assert torch.equal(found[0], inputs()[0][0].transpose(0, 1))


def pretrained(folder: Path) -> Any:
    model, _ = open_pretrained(str(pretrained_folder(folder / "model")), device="cpu")
    return model


def test_a_family_whose_attention_cannot_be_replaced_is_rejected() -> None:
    model = SimpleNamespace(config=SimpleNamespace(_attn_implementation="sdpa"))
    model.set_attn_implementation = lambda _name: None
    with pytest.raises(ConfigError, match=r"cannot be replaced.*update\.packing=padded"):
        attend_by_forest(model)


def test_a_difference_that_16_bits_excuse_is_rejected_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pretrained(tmp_path)
    monkeypatch.setattr(
        "creditflow.train.policy.packing.attention.packed_hidden", lambda *arguments: packed_hidden(*arguments) + 0.01
    )
    check_packing(model, "bfloat16")
    with pytest.raises(ConfigError, match=r"off by 0\.01"):
        check_packing(model)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_16_bits_excuse_rounding_but_no_wrong_attention(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of hidden states; rows of special tokens are never asked for, which may be untrained."""
    model = pretrained(tmp_path).to(getattr(torch, dtype))
    with torch.no_grad():
        model.get_input_embeddings().weight[: model.config.vocab_size // 8] = torch.nan
        model.get_decoder().norm.weight *= 300.0
    check_packing(model, "bfloat16")
    right = packed_hidden

    def neighbours(decoder: Any, ids: Any, positions: Any, packed: Any) -> Any:
        return right(decoder, ids, positions + 1 * (positions > 5), packed)

    monkeypatch.setattr("creditflow.train.policy.packing.attention.packed_hidden", neighbours)
    with pytest.raises(ConfigError, match="other values"):
        check_packing(model, "bfloat16")


@pytest.mark.parametrize("token", range(3))
def test_results_that_are_no_numbers_are_rejected(token: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they are: of the tokens here, the first belong to all sequences, the last to one."""

    def broken(*arguments: Any) -> Any:
        hidden = packed_hidden(*arguments).clone()
        hidden[0, (0, 6, -1)[token]] = torch.nan
        return hidden

    monkeypatch.setattr("creditflow.train.policy.packing.attention.packed_hidden", broken)
    with pytest.raises(ConfigError, match="off by nan"):
        check_packing(pretrained(tmp_path))


@pytest.mark.parametrize("training", [True, False])
def test_the_check_leaves_the_model_in_its_mode(training: bool, tmp_path: Path) -> None:
    model = pretrained(tmp_path).train(training)
    check_packing(model)
    assert model.training == training


@pytest.mark.parametrize("packing", ["padded", "packed"])
def test_a_budget_of_no_tokens_is_rejected(packing: Any) -> None:
    with pytest.raises(ConfigError, match="budget must be positive, got 0"):
        plan_rows([], 0, packing)
