"""What a policy version computed for a prompt is not computed again, and completions are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.pretrained import pretrained_folder

from creditflow.agents.backends import distributions
from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import open_pretrained

END = frozenset({7})


@pytest.fixture
def backend(tmp_path: Path) -> TransformersBackend:
    model, _ = open_pretrained(str(pretrained_folder(tmp_path / "model")), device="cpu")
    return TransformersBackend(model)


def requests(seed: int, prompts: int = 3, each: int = 4) -> list[GenerationRequest]:
    rng = np.random.default_rng(seed)
    texts = [np.random.default_rng(number).integers(5, 200, 6 + number).astype(np.int32) for number in range(prompts)]
    return [GenerationRequest((seed, i), texts[i % prompts], rng.random(8)) for i in range(prompts * each)]


@pytest.mark.parametrize(
    "sampling", [Sampling(4), Sampling(4, temperature=0.0), Sampling(4, 0.7, 0.9, 20, entropies=2)]
)
def test_completions_are_those_of_the_model(backend: TransformersBackend, sampling: Sampling) -> None:
    for seed in range(3):
        given = requests(seed)
        found = backend.generate(given, sampling, END)
        for request, one in zip(given, found, strict=True):
            backend.sleep()
            [alone] = backend.generate([request], sampling, END)
            assert alone.ids.tolist() == one.ids.tolist()
            np.testing.assert_allclose(alone.logprobs, one.logprobs, atol=1e-5)
            np.testing.assert_allclose(alone.entropies, one.entropies, atol=1e-5)


def test_the_same_call_is_answered_without_the_model_until_the_weights_change(
    backend: TransformersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    real = backend.model.forward

    def counted(*args: Any, **options: Any) -> Any:
        read.append(int(options["input_ids"].numel()))
        return real(*args, **options)

    monkeypatch.setattr(backend.model, "forward", counted)
    first = backend.generate(requests(0), Sampling(3), END)
    assert read[0] == 3 * 8  # three prompts of at most eight tokens, not twelve
    before = len(read)
    again = backend.generate(requests(0), Sampling(3), END)
    assert len(read) == before
    assert [one.ids.tolist() for one in again] == [one.ids.tolist() for one in first]
    assert all(np.array_equal(a.logprobs, b.logprobs) for a, b in zip(again, first, strict=True))
    backend.sync()
    backend.generate(requests(0), Sampling(3), END)
    assert len(read) > before


def test_little_is_remembered_where_little_fits(backend: TransformersBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "MAX_BYTES", 1)
    expected = [one.ids.tolist() for one in backend.generate(requests(1), Sampling(3), END)]
    assert [one.ids.tolist() for one in backend.generate(requests(1), Sampling(3), END)] == expected
    assert len(backend._distributions._rows) == 1
    assert torch.is_tensor(next(iter(backend._distributions._rows.values())))
