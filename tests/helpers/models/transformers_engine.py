"""An inference engine for tests of weight pushes: transformers computes with the pushed tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.backends.engine import ProbeResult, UniquePrompt
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer


class TransformersEngine:
    """An inference engine made of transformers that records its calls; ``lose`` names calls without effect."""

    block_size, exact = 4, True

    def __init__(self, folder: str) -> None:
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        assert config["architectures"] == ["Qwen2ForCausalLM"]
        self.config = config
        self.context = int(config["max_position_embeddings"])
        self.calls: list[str] = []
        self.lose: set[str] = set()
        self.model: Any = None

    def complete(
        self, prompts: Sequence[UniquePrompt], sampling: Sampling, end_ids: frozenset[int], seed: int
    ) -> list[list[Completion]]:
        self.calls.append("complete")
        requests = [
            GenerationRequest((i, k), one.ids, np.random.default_rng([seed, i, k]).random(sampling.max_new_tokens))
            for i, one in enumerate(prompts)
            for k in range(len(one.places))
        ]
        answers = iter(TransformersBackend(self.model).generate(requests, sampling, end_ids))
        return [[next(answers) for _ in one.places] for one in prompts]

    def probe(self, ids: Any, tokens: int) -> ProbeResult:
        self.calls.append("probe")
        with torch.no_grad():
            table = torch.log_softmax(
                self.model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0, -1], -1
            )
        best = int(table.argmax())
        return ProbeResult(np.array([best], np.int32), ({token: float(table[token]) for token in (best, 7, 9)},))

    def receive(self, tensors: Mapping[str, Any]) -> int:
        from transformers import Qwen2Config, Qwen2ForCausalLM

        self.calls.append("receive")
        if self.model is not None and "receive" in self.lose:
            return len(tensors)
        self.model = Qwen2ForCausalLM(Qwen2Config(**self.config)).eval()
        missing, unexpected = self.model.load_state_dict(tensors, strict=False)
        assert not unexpected
        assert set(missing) <= {"lm_head.weight"}  # which a tied model has once
        self.model.tie_weights()
        return len(tensors) - ("tensor" in self.lose)

    def reset_prefix_cache(self) -> bool:
        self.calls.append("reset_prefix_cache")
        return "reset_prefix_cache" not in self.lose

    def sleep(self) -> None:
        self.calls.append("sleep")

    def wake(self, part: str) -> None:
        self.calls.append(f"wake {part}")


def toy_model(*, tied: bool) -> Any:
    """A model of two layers, with or without tied embeddings."""
    config = ScratchConfig(
        hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=280, init=0.2, tied=tied
    )
    return build_model(config, build_tokenizer(["up down"] * 4, config), seed=3)
