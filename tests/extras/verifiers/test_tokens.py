"""verifiers' train client on a stand-in for vLLM's token endpoint: ids as sampled, and credit on exactly these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.tiny_tokenizer import byte_tokenizer
from helpers.servers.chat_server import json_server, random_player

from creditflow import credit

pytestmark = pytest.mark.verifiers


def test_sampled_ids_carry_their_turns_credit_and_nothing_else_does(
    play: Callable[..., list[Any]], tmp_path: Path
) -> None:
    from renderers import DefaultRendererConfig
    from verifiers.v1.clients import TrainClientConfig

    from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes

    tokenizer = byte_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    player = random_player(4)
    sampled: list[list[int]] = []

    def generate(_path: str, body: dict[str, Any]) -> Any:
        shown = tokenizer.decode(body["token_ids"]).rsplit("<|im_start|>user", 1)[1].split("<|im_end|>")[0]
        text = player([{"role": "user", "content": shown}])
        ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
        sampled.append(ids)
        scores = [{"token": f"token_id:{i}", "logprob": -0.5} for i in ids]
        return {
            "request_id": "r", "choices": [{"token_ids": ids, "finish_reason": "stop", "logprobs": {"content": scores}}]
        }  # fmt: skip

    with json_server(generate) as url:
        client = TrainClientConfig(
            base_url=f"{url}/v1", renderer=DefaultRendererConfig(), renderer_model_name=str(tmp_path)
        )
        episodes = play(None, client=client, size=4)
    assert all(episode.ok for episode in episodes), [episode.last_error for episode in episodes]
    credit_episodes(episodes, credit.make("gigpo"))
    spans, branches = [], 0
    for trace in [episode.traces[0] for episode in episodes]:
        branches += len(trace.branches)
        numbers = list(trace.info[ADVANTAGES])
        for node in trace.nodes:
            assert (node.advantages is not None) == node.sampled
            if node.sampled:
                assert node.advantages == [numbers.pop(0)] * sum(node.mask)
                spans.append(np.array(node.token_ids)[np.array(node.mask)].tolist())
        assert not numbers
        for branch in trace.branches:  # prime-rl's rows
            mask, credited = np.array(branch.sampled_mask), np.array(branch.advantages)
            assert not credited[~mask].any()
    assert sorted(spans) == sorted(sampled)
    assert any(number for episode in episodes for number in episode.traces[0].info[ADVANTAGES])
    assert branches >= len(episodes)
