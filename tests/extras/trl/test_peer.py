"""The benchmark beside TRL: both trainers do the same work, token by token, and the clock counts every second once."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from creditflow.agents.language_model.pretrained import open_pretrained

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.peer.clock import GENERATION, REST, UPDATE, Clock
from benchmarks.peer.ours import run_ours
from benchmarks.peer.start import make_start
from benchmarks.peer.with_trl import RESPONSE_TEMPLATE, run_trl
from benchmarks.peer.work import WARM_UP, WORKS, Work

WORK = Work(hidden=64, layers=2, heads=2, intermediate=128, tasks=1, turns=3, micro_rows=4, iterations=1, sft_steps=120)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    make_start(WORK, folder)
    return folder


def test_both_trainers_sample_and_train_on_the_same_number_of_tokens(start, tmp_path):
    rows = WORK.episodes
    expected = {"rows": rows, "tokens": rows * WORK.length, "sampled": rows * WORK.turns * WORK.completion}
    for run in (run_ours, run_trl):
        clock, counts = run(WORK, start, tmp_path / run.__name__)
        assert len(clock.cpu) == WARM_UP + WORK.iterations
        assert set(clock.parts) == {GENERATION, REST, UPDATE}
        for count in counts:
            # a small model errs in the format now and then, which ends an episode for TRL and loses a turn for us
            assert all(0.9 * number <= count[name] <= number for name, number in expected.items())


def test_trls_prompts_are_ours(start):
    _, tokenizer = open_pretrained(str(start), device="cpu")
    tokenizer.response_template = RESPONSE_TEMPLATE
    chat = WORK.prompting.conversations(tokenizer).chat
    board, after = "#" * 36, "P" * 36
    first = tokenizer.apply_chat_template(
        [{"role": "user", "content": board}], add_generation_prompt=True, return_dict=False
    )
    assert first == chat.first_prompt_ids("", board).tolist()
    completion = chat.encode_completion("<think>a b</think><action>up</action>").tolist()
    parsed = tokenizer.parse_response(completion, prefix=first)
    assert parsed["tool_calls"] == [{"type": "function", "function": {"name": "act", "arguments": {"action": "up"}}}]
    call = {"role": "assistant", "content": "", "tool_calls": parsed["tool_calls"]}
    told = [{"role": "user", "content": board}, call]
    before = tokenizer.apply_chat_template(told, return_dict=False)
    whole = tokenizer.apply_chat_template(
        [*told, {"role": "tool", "name": "act", "content": after}], add_generation_prompt=True, return_dict=False
    )
    assert whole[: len(before)] == before
    assert whole[len(before) :] == chat.next_prompt_ids(after, ended=True).tolist()


def test_no_level_can_be_solved_within_an_episode():
    assert all(work.env().options["generator"]["min_length"] > work.turns for work in WORKS.values())


def test_operations_are_those_of_the_model(start):
    model, tokenizer = open_pretrained(str(start), device="cpu")
    linear = [one for name, one in model.named_parameters() if name.endswith("weight") and one.ndim == 2]
    matrices = sum(one.numel() for one in linear) - model.get_input_embeddings().weight.numel()
    assert matrices == sum(rows * columns * count for rows, columns, count in WORK.shapes)
    sampled, length = WORK.turns * WORK.completion, WORK.length
    pairs = length * (length + 1) / 2
    head = len(tokenizer) * WORK.hidden * sampled
    forward = 2 * matrices * length + 2 * head + 4 * WORK.hidden * WORK.layers * pairs
    assert WORK.operations(len(tokenizer)) == pytest.approx(4 * forward * WORK.episodes)


def test_parts_of_an_iteration_add_up_to_it():
    clock = Clock()
    clock.start()
    for _ in range(2):
        with clock.part(REST):
            sum(range(100_000))
            with clock.part(GENERATION):
                sum(range(200_000))
        began = time.process_time()
        while time.process_time() - began < 0.01:
            pass
        clock.finish()
    for number, whole in enumerate(clock.cpu):
        assert sum(part[number] for part in clock.parts.values()) == pytest.approx(whole)
        assert all(part[number] > 0.0 for part in clock.parts.values())
