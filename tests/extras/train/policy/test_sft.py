"""SFT on recorded episodes: repeated with the run's prompts or as they were written, rejected by score, and masked where invalid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.tiny_tokenizer import byte_tokenizer
from helpers.models.training_runs import Make, metrics

from creditflow.agents.language_model.chat import TemplateChat
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.cli import main
from creditflow.train.policy.sft import demonstrations, sft_rows
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl
from creditflow.wrappers.records.trajectory import PARENT, Trajectory, Turn


def demonstrated(trainer_of: Make, config: dict[str, Any], *overrides: str) -> list[Group]:
    run = trainer_of(config, *overrides)
    return demonstrations(run.settings, run.tokenizer, run.tasks, run.ends)


def without_tokens(groups: list[Group]) -> list[Group]:
    return [replace(g, trajectories=tuple(replace(t, tokens=None) for t in g.trajectories)) for g in groups]


def test_an_episode_of_several_contexts_is_no_conversation_to_imitate(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    turns = (Turn("a", "x", "b", response="x", values={PARENT: -1.0}), Turn("b", "y", "c", values={PARENT: -1.0}))
    episode = Trajectory("compacted", "g", "t", turns, True, 1.0, "success", "c")
    write_jsonl(tmp_path / "log.jsonl", [episode])
    with pytest.raises(DataError, match="'compacted' has turns of several contexts"):
        demonstrated(trainer_of, config, f"sft.log={tmp_path}/log.jsonl", "sft.replay=false")


@pytest.mark.parametrize("history", ["append", "window"])
def test_recorded_episodes_of_the_expert_give_the_rows_of_the_expert(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path, history: str
) -> None:
    form = (f"prompting.history={history}", "sft.noise=0.3")
    groups = demonstrated(trainer_of, config, *form, f"out={tmp_path}/expert")
    write_jsonl(tmp_path / "log.jsonl", without_tokens(groups))
    recorded = demonstrated(trainer_of, config, *form, f"out={tmp_path}/recorded", f"sft.log={tmp_path}/log.jsonl")
    assert len(recorded) == len(groups)

    def texts(found: list[Group]) -> list[tuple[Any, ...]]:
        rows = sft_rows(found)
        return sorted((row.ids.tolist(), row.target.tolist()) for row in rows)

    assert texts(recorded) == texts(groups)  # no action of the expert is invalid, so all are in the loss


def test_episodes_below_the_score_are_rejected_and_without_any_left_the_run_stops(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    groups = demonstrated(trainer_of, config, f"out={tmp_path}/expert")
    scored = [replace(g, trajectories=(replace(g.trajectories[0], score=i / 10),)) for i, g in enumerate(groups[:5])]
    write_jsonl(tmp_path / "log.jsonl", without_tokens(scored))
    log = f"sft.log={tmp_path}/log.jsonl"
    assert len(demonstrated(trainer_of, config, log, "sft.min_score=0.2", f"out={tmp_path}/some")) == 3  # .2, .3, .4
    with pytest.raises(ConfigError, match=r"is left after rejection: lower sft\.min_score"):
        demonstrated(trainer_of, config, log, "sft.min_score=0.9", f"out={tmp_path}/none")


def test_invalid_turns_are_repeated_and_not_imitated(trainer_of: Make, config: dict[str, Any], tmp_path: Path) -> None:
    [group, *_] = demonstrated(trainer_of, config, f"out={tmp_path}/expert")
    [episode] = group.trajectories
    first = episode.turns[0]
    wrong = replace(first, action="fly", response="fly", admissible=False, next_state_key=first.state_key)
    recorded = replace(
        episode, turns=(wrong,), tokens=None, final_state_key=first.state_key, success=False, score=0.0, stop_reason="env_limit"
    )  # fmt: skip
    write_jsonl(tmp_path / "log.jsonl", [replace(group, trajectories=(recorded,))])
    [repeated] = demonstrated(trainer_of, config, f"sft.log={tmp_path}/log.jsonl", f"out={tmp_path}/recorded")
    [turn] = repeated.trajectories[0].turns
    tokens = repeated.trajectories[0].tokens
    assert turn.action == "fly" and not turn.valid
    assert tokens is not None and not np.any(tokens.mask)


def test_episodes_of_another_environment_are_refused(trainer_of: Make, config: dict[str, Any], tmp_path: Path) -> None:
    [group, *_] = demonstrated(trainer_of, config, f"out={tmp_path}/expert")
    [episode] = group.trajectories
    elsewhere = replace(episode.turns[0], observation="a room that is not there")
    changed = replace(episode, turns=(elsewhere, *episode.turns[1:]), tokens=None)
    write_jsonl(tmp_path / "log.jsonl", [replace(group, trajectories=(changed,))])
    with pytest.raises(DataError, match="turn 0: was recorded in another environment"):
        demonstrated(trainer_of, config, f"sft.log={tmp_path}/log.jsonl", f"out={tmp_path}/recorded")


CHATS = [  # of an environment that is not ours
    ("Where is the cat?", "open door", "A cat is here.", "take cat", 1.0),
    ("Where is the dog?", "open door", "A dog is here.", "take dog", 0.6),
    ("Where is the owl?", "sleep", "Nothing is here.", "sleep", 0.1),
]


@pytest.fixture
def chats(tmp_path: Path) -> str:
    """A log that the import makes of a file of messages."""
    roles = ("user", "assistant", "user", "assistant")
    rows = [
        {
            "messages": [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)],
            "reward": reward,
        }
        for *texts, reward in CHATS
    ]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="ascii")
    assert (
        main(["data", "import", "messages", str(tmp_path / "chats.jsonl"), "--out", str(tmp_path / "log.jsonl")]) == 0
    )
    return f"sft.log={tmp_path}/log.jsonl"


def test_of_chats_from_elsewhere_only_what_the_model_wrote_is_in_the_loss(
    trainer_of: Make, config: dict[str, Any], chats: str
) -> None:
    run = trainer_of(config, chats, "sft.replay=false", "sft.min_score=0.5")
    groups = demonstrations(run.settings, run.tokenizer, run.tasks, run.ends)
    rows = sft_rows(groups)
    chat = run.settings.prompting.conversations(run.tokenizer, run.ends).chat
    assert len(rows) == 2  # the third has too low a score
    for row, (first, said, then, done, _) in zip(rows, CHATS[:2], strict=True):
        written = [*chat.encode_completion(said), *chat.encode_completion(done)]
        whole = [*chat.first_prompt_ids("", first), *written[: len(chat.encode_completion(said))]]
        whole += [*chat.next_prompt_ids(then, ended=True), *chat.encode_completion(done)]
        assert row.ids.tolist() == whole
        assert row.ids[row.target].tolist() == written
        assert chat.decode_completion(chat.encode_completion(said).tolist()) == said
        assert row.advantage.tolist() == [1.0] * len(written)


def test_a_run_learns_from_chats_from_elsewhere_alike_packed_and_padded(
    trainer_of: Make, config: dict[str, Any], chats: str, tmp_path: Path
) -> None:
    losses = {}
    for packing in ("padded", "packed"):
        run = trainer_of(
            config, chats, "sft.replay=false", "sft.steps=30", "sft.batch_tokens=1000", "update.iterations=0",
            f"update.packing={packing}", f"out={tmp_path}/{packing}",
        )  # fmt: skip
        run.run()
        losses[packing] = [record["loss"] for record in metrics(run) if record["phase"] == "sft"]
    assert losses["packed"] == pytest.approx(losses["padded"], abs=1e-4)
    assert losses["packed"][-1] < 0.3 * losses["packed"][0]


def test_chats_beyond_the_context_are_rejected_and_a_log_is_needed(
    trainer_of: Make, config: dict[str, Any], chats: str
) -> None:
    with pytest.raises(ConfigError, match="is left after rejection"):
        demonstrated(trainer_of, config, chats, "sft.replay=false", "prompting.max_context=8")
    with pytest.raises(ConfigError, match=r"set sft\.log"):
        trainer_of(config, "sft.replay=false")


def test_recorded_messages_are_rendered_by_the_models_own_template():
    """System, calls, thoughts, results and messages that are not trained on keep their roles; only turns are completions."""
    template = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}(call {{ c.function.name }}"
        "{{ c.function.arguments.x }}){% endfor %}<e>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template.replace("<e>", tokenizer.eos_token)
    chat = TemplateChat(tokenizer)
    messages = (
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "Looking.", "reasoning_content": "where?", "tool_calls": [{"function": {"name": "look", "arguments": {"x": 1}}}]},
        {"role": "tool", "content": "a room"}, {"role": "assistant", "content": "demo", "weight": 0}, {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "stop"},
    )  # fmt: skip
    pieces = [
        (chat.decode_completion(prompt.tolist()), chat.decode_completion(completion.tolist()))
        for prompt, completion in chat.pieces(messages)
    ]
    end = tokenizer.eos_token
    assert [(prompt.replace(end, "<e>"), completion) for prompt, completion in pieces] == [
        ("[system]Be brief.<e>[user]Q<e>[assistant]", "<think>where?</think>Looking.(call look1)"),
        ("[tool]a room<e>[assistant]demo<e>[user]go on<e>[assistant]", "stop"),
    ]
