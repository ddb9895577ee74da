"""The sizes of episodes and their credit in verl's batches: one part of ``verl_adapter.py``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from creditflow import credit
from creditflow.agents import NoisyExpert
from creditflow.agents.base import Decision, View
from creditflow.agents.prompts import Prompt, make_prompt, slots_of
from creditflow.train.adapters.verl.record import EpisodeRecord
from creditflow.train.rollout import play_group
from creditflow.train.rollout.tasks import group_env_factory, panel_tasks
from creditflow.train.settings.schema import EnvConfig
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import encode_line
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["SIZE", "sizes"]

SIZE = 8  # trajectories in a group


class Reader(NoisyExpert):
    """A noisy expert that counts the characters of the messages that a model in its place would have read."""

    def __init__(self, prompt: Prompt) -> None:
        super().__init__(0.4)
        self.prompt = prompt
        self.first: list[int] = []
        self.later: list[int] = []

    def act(self, views: Sequence[View]) -> list[Decision]:
        """The actions of the noisy expert; the messages are counted."""
        for view in views:
            slots = slots_of(self.prompt, view, 0, "")
            if view.turns:
                self.later.append(len(self.prompt.fill("later", slots)))
            else:
                self.first.append(len(self.prompt.fill("system", slots)) + len(self.prompt.fill("first", slots)))
        return super().act(views)


def sizes() -> dict[str, Any]:
    """Per environment, of 16 groups of 8 played by a noisy expert: bytes and characters of a turn."""
    out: dict[str, Any] = {}
    for name in ("sokoban", "alfworld", "webshop", "wikisearch"):
        env = EnvConfig(name=name)
        maker = group_env_factory(env, SIZE, texts=True)()
        agent = Reader(make_prompt("search-v1" if name == "wikisearch" else "think-v1"))
        groups = [play_group(maker, agent, task, seed=0) for task in panel_tasks(env, "standard-v1:train", limit=16)]
        members = [member for group in groups for member in group.trajectories]
        turns = sum(len(member.turns) for member in members)
        out[name] = {
            "episodes": len(members),
            "turns_per_episode": round(turns / len(members), 1),
            "record_bytes_per_turn": round(sum(map(len, _records(groups))) / turns),
            "log_bytes_per_turn_with_observations": round(sum(len(encode_line(m, None)) for m in members) / turns),
            "log_bytes_per_token": _token_bytes(members[0]),
            "prompt": agent.prompt.name,
            "first_message_characters": round(float(np.mean(agent.first))),
            "later_message_characters": round(float(np.mean(agent.later))),
            "credit_microseconds_per_turn": round(1e6 * _seconds_of_credit(groups) / turns, 1),
        }
    return out


def _records(groups: list[Group]) -> list[str]:
    """The records that the agent loop would add to verl's batch."""
    members = [_without_texts(member) for group in groups for member in group.trajectories]
    return [EpisodeRecord(m, np.zeros(len(m.turns) + 1, np.int32), {}).encode() for m in members]


def _without_texts(member: Any) -> Any:
    turns = tuple(replace(turn, observation="", thought="", response="") for turn in member.turns)
    return replace(member, turns=turns)


def _token_bytes(member: Any) -> float:
    """Bytes that a token adds to a log line, measured with a thousand: ids of five digits, log-probabilities as float32 prints."""
    rng, n, t = np.random.default_rng(0), 1000, len(member.turns)
    offsets = np.linspace(0, n, t + 1).astype(np.int32)
    ids, logprobs = rng.integers(10_000, 99_999, n).astype(np.int32), -rng.exponential(size=n).astype(np.float32)
    tokens = Tokens(
        ids, np.arange(n) % 3 == 0, np.where(np.arange(n) % 3 == 0, logprobs, 0.0).astype(np.float32), offsets
    )
    return round((len(encode_line(replace(member, tokens=tokens), None)) - len(encode_line(member, None))) / n, 1)


def _seconds_of_credit(groups: list[Group]) -> float:
    """Seconds of the credit step as verl's controller runs it (decode the records, assign graphgpo); the fastest of three."""
    scheme, best, texts = credit.make("graphgpo"), np.inf, _records(groups)
    for _ in range(3):
        began = time.perf_counter()
        read = [EpisodeRecord.decode(text).trajectory for text in texts]
        scheme.assign_batch([Group(tuple(read[i : i + SIZE])) for i in range(0, len(read), SIZE)])
        best = min(best, time.perf_counter() - began)
    return best
