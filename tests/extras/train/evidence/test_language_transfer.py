"""The transfer of a small language model, in miniature: judged on every game, by the oracle's commands alone, the same each time."""

from __future__ import annotations

import math

from evidence.alfworld.transfer import language_model

from creditflow.envs.alfworld.generator import generate

SMALL = ["sft.episodes=4", "sft.steps=2", "sft.batch_tokens=512", "env.options={max_steps: 4}"]
GAMES = {
    f"{split}/x-{scene}/t{i}/game.tw-pddl": generate(i, room="bathroom")
    for i, (split, scene) in enumerate(
        [("train", 401), ("train", 402), ("train", 401), ("train", 402), ("valid_seen", 401), ("valid_unseen", 403)] * 2
    )
}


def test_a_run_is_judged_on_every_game_and_repeats_itself() -> None:
    first, again = (language_model.one_run(GAMES, "generated", 0, 4, SMALL) for _ in range(2))
    assert first["results"] == again["results"]
    assert first["numbers"]["games"] == 4
    assert set(first["results"]) == {"valid_seen", "valid_unseen"}
    for found in first["results"].values():
        assert set(found) == {"nats", "uniform_nats", "success", "commands"}
        for values in found.values():
            assert len(values) == 2
        assert all(0 < x < math.log(100) for x in found["uniform_nats"])
        assert all(x > 5 for x in found["nats"])  # after two steps


def test_the_settings_are_valid_and_take_the_seed() -> None:
    settings = language_model.settings_of(3)
    assert settings.seed == 3
    assert settings.sft.episodes == language_model.GAMES
