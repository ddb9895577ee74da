"""The animations on the pages of the environments are what the pages' two commands draw, and show what the pages say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from helpers.shared_data import ROOT
from PIL import Image, ImageSequence

from creditflow.envs.registration import ENVIRONMENTS
from creditflow.train.cli import main
from creditflow.wrappers import credit, read_groups

IMAGES = ROOT / "assets" / "site" / "images"
MAX_BYTES = 60 * 1024


def pictures(path: Path) -> list[np.ndarray]:
    """The pictures of an animation, uint8 (H, W, 3) each."""
    with Image.open(path) as film:
        return [np.asarray(picture.convert("RGB")) for picture in ImageSequence.Iterator(film)]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_commands_of_the_page_draw_its_animation_and_the_turn_it_names_is_blamed_most(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "envs" / name / "README.md").read_text(encoding="utf-8")
    commands = re.findall(rf"^creditflow ((?:rollout|view) .*{name}\.(?:jsonl|gif))$", page, re.M)
    monkeypatch.chdir(tmp_path)
    assert [main(shlex.split(command)) for command in commands] == [0, 0]
    stored = IMAGES / f"{name}.gif"
    assert stored.stat().st_size <= MAX_BYTES
    for number, (expected, drawn) in enumerate(zip(pictures(stored), pictures(Path(f"{name}.gif")), strict=True)):
        assert np.array_equal(drawn, expected), f"picture {number}"

    [place] = re.findall(r"--turn (\d+)\.(\d+)\.(\d+)", page)
    group, rollout, turn = map(int, place)
    values = credit.make("grouptd").assign(list(read_groups(f"{name}.jsonl"))[group - 1]).advantages[rollout - 1]
    assert int(np.argmin(values)) == turn - 1
    assert re.search(rf"In turn {turn} this agent .* blames that turn most|blames turn {turn} most", page)
