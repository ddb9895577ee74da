"""Logs of a vision-language policy: pictures beside the log give back the ids that were sampled, and rows that can be trained on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import AGENT_FILE, write_agent_file
from creditflow.agents.models.pictures import pictures_of, save_tokenizer
from creditflow.train.cli import main
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import training_tasks
from creditflow.train.run.assemble import make_policy_agent
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl
from creditflow.wrappers.records.picture_folder import PictureFolder, pictures_beside

PLAYS = ("prompting.history=window", "prompting.history=append")


@pytest.fixture
def logged(tmp_path: Path, vision_config: dict[str, Any], policy_of: Callable[..., Any]) -> Callable[..., Any]:
    """Sampled groups, the same read from a log, the folder of their pictures, and the policy."""

    def play(*overrides: str) -> Any:
        settings, model, tokenizer = policy_of(vision_config, *overrides)
        log = tmp_path / "log.jsonl"
        make = partial(GroupEnv, "sokoban", size=2, pictures=str(pictures_beside(log)), **settings.env.options)
        agent = make_policy_agent(settings, TransformersBackend(model), tokenizer, temperature=1.0)
        groups = RolloutEngine(make).play(agent, training_tasks(settings.env, settings.tasks, 0), seed=0)
        write_jsonl(log, groups)
        return groups, list(read_groups(log)), PictureFolder(pictures_beside(log)), settings, model, tokenizer

    return play


@pytest.mark.parametrize("play", PLAYS)
def test_logged_samples_have_the_same_ids_when_they_are_built_again(logged: Callable[..., Any], play: str) -> None:
    groups, read, folder, settings, _, tokenizer = logged(play)
    encoder, chat = pictures_of(tokenizer), settings.prompting.conversations(tokenizer).chat
    assert encoder is not None
    marker = ["", ""]  # a picture between two texts
    for group in read:
        for trajectory in group.trajectories:
            tokens, ids, ended = trajectory.tokens, [], False
            for t, turn in enumerate(trajectory.turns):
                pictures = [encoder.encode(folder.read(name).pixels) for name in turn.images]
                assert len(pictures) == 1
                append = t > 0 and not tokens.prompts
                text = chat.next_prompt_ids(marker, ended=ended) if append else chat.first_prompt_ids("", marker)
                prompt = encoder.expand(text, pictures)
                start, stop = tokens.turn_offsets[t], tokens.turn_offsets[t + 1]
                own = tokens.ids[start:stop][tokens.mask[start:stop]]
                ended = int(own[-1]) in chat.end_ids
                if tokens.prompts:
                    assert tokens.prompts[t].tolist() == prompt.tolist()
                ids += [*([] if tokens.prompts else prompt.tolist()), *own.tolist()]
            assert tokens.ids.tolist() == ids
    assert len(list(folder.path.iterdir())) < sum(len(t.turns) for group in groups for t in group.trajectories)


def test_commands_play_and_evaluate_a_folder_with_pictures(
    tmp_path: Path, vision_config: dict[str, Any], policy_of: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    settings, model, tokenizer = policy_of(vision_config)
    folder, log = tmp_path / "model", tmp_path / "log.jsonl.gz"
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    write_agent_file(folder / AGENT_FILE, settings.prompting, settings.sampling)
    options = [part for name, value in settings.env.options.items() for part in ("--env-set", f"{name}={value}")]
    arguments = ["--env", "sokoban", *options, "--agent", f"hf:{folder}"]
    assert main(["rollout", *arguments, "--group-size", "2", "--out", str(log)]) == 0
    turns = [turn for group in read_groups(log) for one in group.trajectories for turn in one.turns]
    stored = PictureFolder(tmp_path / "log.pictures")
    assert {name for turn in turns for name in turn.images} <= {file.stem for file in stored.path.iterdir()}
    assert all(stored.read(turn.images[0]).pixels.shape[2] == 3 for turn in turns)
    capsys.readouterr()
    assert main(["eval", *arguments, "--samples", "2"]) == 0
    assert "greedy" in capsys.readouterr().out
