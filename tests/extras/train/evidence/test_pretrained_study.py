"""The study on a pretrained model: what is run, in which order, and its table."""

from __future__ import annotations

from pathlib import Path

from evidence.pretrained.run import SCHEMES, missing, settings_of, table


def test_every_arm_begins_with_the_imitation_of_its_seed_and_differs_in_credit_alone(tmp_path: Path) -> None:
    sft = settings_of(tmp_path, "models/smollm2", "sft", 3)
    assert (sft.update.iterations, sft.seed, sft.model.path) == (0, 3, "models/smollm2")
    for scheme in SCHEMES:
        arm = settings_of(tmp_path, "models/smollm2", scheme, 3)
        assert arm.model.path == str(tmp_path / "sft-3" / "model") and not arm.sft.episodes
        assert (arm.credit.scheme, arm.update.loss.aggregation) == (scheme, "trajectory_mean")


def test_finished_runs_are_not_run_again_and_imitation_comes_first() -> None:
    done = [{"scheme": "sft", "seed": 0}, {"scheme": "grpo", "seed": 0}]
    assert list(missing(done, 2, ["grpo", "grouptd"])) == [(0, "grouptd"), (1, "sft"), (1, "grpo"), (1, "grouptd")]


def test_contrasts_are_paired_by_seed() -> None:
    rows = [
        {"scheme": s, "seed": seed, "sampled": v + 0.1 * seed}
        for s, v in (("stateless", 0.3), ("grouptd", 0.35))
        for seed in (0, 1)
    ]
    printed = table(rows)
    assert "0.050 [0.050, 0.050]" in printed and "0.400" in printed
