"""vLLM's asynchronous engine: every request is answered on its own, pushes arrive, and an engine that dies is an error."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.vllm_model import made_model

from creditflow.agents.backends.base import GenerationError, GenerationRequest, Sampling, WeightPushError

# vLLM and its imports warn of their own deprecated calls
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).resolve().parents[3]
ENDS = frozenset({1})
TOLERANCE = 1e-4  # of a log-probability, float32 against a float32 forward pass
SECONDS = 120.0  # far more than any answer takes


def opened() -> tuple[Any, Any]:
    """A trained model and the sampler that follows it, in an engine process of its own."""
    from creditflow.agents.backends.vllm.config import VllmConfig
    from creditflow.agents.backends.vllm.trained import VllmTrainedBackend

    model = made_model("qwen3", False)
    return model, VllmTrainedBackend(model, dtype="float32", config=VllmConfig(kv_gib=0.25), asynchronous=True)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Any, Any]]:
    model, backend = opened()
    backend.sync("synced")
    yield model, backend
    backend.engine.close()


def request(length: int, seed: int = 0) -> GenerationRequest:
    rng = np.random.default_rng(seed)
    return GenerationRequest(seed, rng.integers(5, 260, length).astype(np.int32), rng.random(8))


def scored(model: Any, ids: Any, answer: Any) -> list[float]:
    """Log-probabilities of a completion's ids by one forward pass."""
    import torch

    whole = torch.from_numpy(np.concatenate([ids, answer]).astype(np.int64))
    with torch.no_grad():
        table = torch.log_softmax(model(input_ids=whole[None]).logits[0].float(), -1)
    return [float(table[len(ids) + i - 1, whole[len(ids) + i]]) for i in range(len(answer))]


def test_logprobs_are_those_of_a_plain_forward_pass_one_by_one_and_in_batches(pair: tuple[Any, Any]) -> None:
    model, backend = pair
    requests = [request(40 + i, i) for i in range(8)]
    sampling = Sampling(max_new_tokens=12)
    with backend.answering(sampling, ENDS) as submit:
        one_by_one = [future.result(SECONDS) for future in [submit(one) for one in requests]]
    for answers in (one_by_one, backend.generate(requests, sampling, ENDS)):
        for asked, answer in zip(requests, answers, strict=True):
            assert np.allclose(answer.logprobs, scored(model, asked.ids, answer.ids), atol=TOLERANCE, rtol=0)


def test_a_short_completion_does_not_wait_for_a_long_one(pair: tuple[Any, Any]) -> None:
    _, backend = pair
    with (
        backend.answering(Sampling(max_new_tokens=400), frozenset()) as submit_long,
        backend.answering(Sampling(max_new_tokens=1), frozenset()) as submit_short,
    ):
        long = submit_long(request(20))
        assert len(submit_short(request(20, 1)).result(SECONDS).ids) == 1
        assert not long.done()
        assert len(long.result(SECONDS).ids) == 400


def test_what_is_unanswered_at_the_end_of_the_block_is_aborted(pair: tuple[Any, Any]) -> None:
    _, backend = pair
    with backend.answering(Sampling(max_new_tokens=400), frozenset()) as submit:
        left = submit(request(20))
    assert left.cancelled()
    assert backend.engine.reset_prefix_cache()  # refused while a request runs


def test_pushes_arrive_and_one_that_does_not_is_rejected(
    pair: tuple[Any, Any], shift: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow.agents.backends.vllm.trained import tensors_in

    model, backend = pair
    for number in range(2):
        shift(model)
        backend.sync(f"push-{number}")
        assert backend.sync_numbers["push_difference"] < TOLERANCE
    shift(model)
    with monkeypatch.context() as patched:
        patched.setattr(backend.engine, "load", tensors_in)
        with pytest.raises(WeightPushError, match="differ by"):
            backend.sync("lost")
    with pytest.raises(GenerationError, match="sync"), backend.answering(Sampling(max_new_tokens=4), ENDS):
        pass
    backend.sync("again")


def test_the_host_process_keeps_its_random_state(pair: tuple[Any, Any]) -> None:
    import torch

    _, backend = pair
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    backend.sync()
    backend.generate([request(20)], Sampling(max_new_tokens=4), ENDS)
    assert torch.equal(torch.rand(3), expected)


def loops() -> int:
    """Number of threads that speak to an engine."""
    return sum(thread.name == "creditflow-vllm" for thread in threading.enumerate())


def test_an_engine_that_is_killed_is_an_error_at_once_and_leaves_no_thread() -> None:
    before, threads = set(multiprocessing.active_children()), loops()
    _, backend = opened()
    backend.sync()
    [engine] = [one for one in multiprocessing.active_children() if one not in before]
    with backend.answering(Sampling(max_new_tokens=400), frozenset()) as submit:
        running = [submit(request(20, i)) for i in range(4)]
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        for future in running:
            with pytest.raises(GenerationError, match="vLLM's engine failed"):
                future.result(SECONDS)
        with pytest.raises(GenerationError, match="failed in an earlier call"):
            submit(request(20)).result(SECONDS)
    backend.engine.close()
    del backend
    gc.collect()
    assert not engine.is_alive()
    assert loops() == threads


def test_a_run_is_trained_on_what_the_engine_samples(tmp_path: Path) -> None:
    changes = (
        "tasks.count=200", "rollout.tasks=8", "rollout.group_size=4", "evaluation.panel=small-v1:valid",
        "evaluation.limit=2", "evaluation.samples=1", "evaluation.every=2", "evaluation.final_panel=", "checkpoint.every=2",
        "sft.episodes=150", "sft.steps=60", "generation.backend=vllm", "rollout.asynchronous=true",
        "update.iterations=2", f"out={tmp_path}/run",
    )  # fmt: skip
    words = [word for one in changes for word in ("--set", one)]
    done = subprocess.run(
        [sys.executable, "-m", "creditflow.train", "train", "train/configs/quickstart.yaml", *words],
        cwd=ROOT, timeout=600, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="ascii").splitlines()]
    rows = [row for row in rows if row["kind"] == "iteration"]
    assert len(rows) == 2
    assert all(row["sampler_mismatch_max"] < 1e-4 and row["push_difference"] < 1e-4 for row in rows)
