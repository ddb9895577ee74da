"""A rollout as a still and as an animation: what the pixels show is the recorded rollout and its credit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor, ImageSequence

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.sokoban.rules import grid
from creditflow.envs.sokoban.tiles import tile_table
from creditflow.train.cli import main
from creditflow.train.commands import view
from creditflow.train.commands.demo import SHOWN, example_group
from creditflow.train.viewer import animation
from creditflow.train.viewer.animation import SIZE, most_blamed, write_gif, write_png
from creditflow.train.viewer.boards import group_boards
from creditflow.wrappers import Group, Trajectory, Turn, credit, write_jsonl
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.credit.registry import assigned

GOOD, BAD = (ImageColor.getrgb(name) for name in ("#0969da", "#bc4c00"))


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture.convert("RGB"))


def bars(picture: np.ndarray, top: int) -> list[tuple[str, int]]:
    """Side and height of every bar in the strip that begins in this row, from the left."""
    strip = picture[top : top + animation.STRIP, animation.NAME + animation.MARGIN :]
    found: list[tuple[str, int]] = []
    before = ""
    for column in strip.swapaxes(0, 1):
        heights = {name: int((column == colour).all(axis=1).sum()) for name, colour in (("good", GOOD), ("bad", BAD))}
        side = max(heights, key=lambda name: heights[name]) if any(heights.values()) else ""
        if side and not before:
            found.append((side, heights[side]))
        before = side
    return found


def drawn(folder: Path, group: Group, rollout: int, turn: int, *names: str) -> np.ndarray:
    write_png(folder / "x.png", group, rollout, turn, {name: credit.make(name).assign(group) for name in names})
    with Image.open(folder / "x.png") as picture:
        assert picture.size == SIZE
        return pixels(picture)


def test_the_bars_of_a_still_are_the_credit_of_the_turns_so_far_in_units_of_the_largest_of_the_group(tmp_path):
    group, names = example_group(), ("grouptd", "grpo")
    for turn in range(4):
        picture = drawn(tmp_path, group, SHOWN, turn, *names)
        for number, name in enumerate(names):
            scored = credit.make(name).assign(group)
            largest = np.abs(scored.flat_advantages).max()
            shown = bars(picture, SIZE[1] - animation.STRIP * (2 - number))
            values = scored.advantages[SHOWN][: turn + 1]
            assert [side for side, _ in shown] == ["good" if x > 0 else "bad" for x in values]
            heights = [(animation.STRIP // 2 - 5) * abs(x) / largest for x in values]
            assert [height for _, height in shown] == pytest.approx(heights, abs=1.5)


def test_a_turn_without_credit_has_no_bar_and_its_number_is_neither_good_nor_bad(tmp_path):
    turns = (Turn("a", "x", "b"), Turn("b", "y", "c"))
    group = Group((Trajectory("t", "g", "task", turns, False, 0.0, "failed", "c"),))
    picture = drawn(tmp_path, group, 0, 1, "grpo")
    assert not (picture == GOOD).all(axis=2).any()
    assert not (picture == BAD).all(axis=2).any()


def sokoban_group() -> Group:
    xsb, moves = "#######\n#  .  #\n# $ @ #\n#  $ .#\n#######", ("up", "left", "left")
    import creditflow
    from creditflow.wrappers import GroupEnv

    env = GroupEnv(lambda: creditflow.make("sokoban", level=xsb, max_steps=3), size=2)
    env.reset(seed=0)
    for move in moves:
        env.step(dict.fromkeys(env.active, move))
    return env.group()


def test_a_sokoban_rollout_shows_the_board_before_each_turn_and_the_one_at_its_end(tmp_path):
    group = sokoban_group()
    write_gif(tmp_path / "x.gif", group, 0, {"grpo": credit.make("grpo").assign(group)})
    member, boards = group.trajectories[0], group_boards(group)
    keys = [*(turn.state_key for turn in member.turns), member.final_state_key]
    with Image.open(tmp_path / "x.gif") as film:
        assert (len(list(ImageSequence.Iterator(film))), film.size) == (4, SIZE)
        assert film.info["loop"] == 0
        times = []
        for number, key in enumerate(keys):
            film.seek(number)
            times.append(film.info["duration"])
            codes = grid(boards[key], 7)
            size = min((SIZE[1] - animation.TOP - animation.STRIP - animation.MARGIN) // len(codes), 56)
            expected = np.concatenate(np.concatenate(tile_table(size)[codes], axis=1), axis=1)
            expected = expected.reshape(size * codes.shape[0], size * codes.shape[1], 3).astype(int)
            shown = pixels(film)[animation.TOP :, animation.MARGIN :][: expected.shape[0], : expected.shape[1]]
            assert np.abs(shown - expected).mean() < 6  # of 255: colours are rounded to a palette
        assert times[:-1] == [animation.TURN_MS] * 3
        assert times[-1] == animation.END_MS


def test_a_stored_picture_is_shown_whole_and_a_missing_one_leaves_the_text(tmp_path):
    frame = np.full((900, 300, 3), (10, 200, 30), np.uint8)
    turns = (Turn("a", "x", "b", observation="a text", images=("there",)), Turn("b", "y", "c", images=("gone",)))
    group = Group((Trajectory("t", "g", "task", turns, False, 0.0, "failed", "c"),))

    def read(name):
        if name != "there":
            raise DataError("missing")
        return frame

    write_gif(tmp_path / "x.gif", group, 0, {"grpo": credit.make("grpo").assign(group)}, read)
    with Image.open(tmp_path / "x.gif") as film:
        green = []
        for number in range(2):
            film.seek(number)
            green.append(int((np.abs(pixels(film).astype(int) - frame[0, 0]).max(axis=2) < 10).sum()))
    room = SIZE[1] - animation.TOP - animation.STRIP - animation.MARGIN
    assert green[0] == pytest.approx(room * room / 3, rel=0.05)
    assert green[1] == 0


def test_a_rollout_that_is_too_long_is_an_error_with_a_remedy_and_its_still_is_drawn(tmp_path):
    turns = tuple(Turn(f"s{t}", "go", f"s{t + 1}") for t in range(3000))
    group = Group((Trajectory("t", "g", "x", turns, False, 0.0, "failed", turns[-1].next_state_key),))
    scored = {"grpo": credit.make("grpo").assign(group)}
    with pytest.raises(ConfigError, match=r"3000; choose a shorter one with --turn, or draw one turn with --png"):
        write_gif(tmp_path / "x.gif", group, 0, scored)
    write_png(tmp_path / "x.png", group, 0, 2999, scored)
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]


@pytest.mark.parametrize("text", ["\ud800 half", "\x00\x1b[2J\u202e", "x" * 10**6, "\n" * 999, "", "語 \U0001f600"])
def test_any_text_of_a_log_can_be_drawn(tmp_path, text):
    turn = Turn("a", text or "go", "b", observation=text)
    group = Group((Trajectory("t", "g", "task", (turn,), False, 0.0, "failed", "b"),))
    write_gif(tmp_path / "x.gif", group, 0, {"grpo": credit.make("grpo").assign(group)})


def test_the_most_blamed_turn_has_the_lowest_advantage_of_all_groups():
    groups = [example_group(), sokoban_group()]
    scored = credit.make("grouptd").assign_batch(groups)
    g, r, t = most_blamed(scored)
    assert scored[g].advantages[r][t] == min(x.flat_advantages.min() for x in scored)


def test_the_command_draws_the_blamed_turn_or_the_one_that_is_named_and_writes_over_no_input(tmp_path, capsys):
    log, gif, png = tmp_path / "log.jsonl", tmp_path / "x.gif", tmp_path / "x.png"
    write_jsonl(log, [example_group()])
    content = log.read_bytes()
    assert main(["view", str(log), "--gif", str(gif), "--png", str(png)]) == 0
    assert "x.png: turn 1.2.4" in capsys.readouterr().err
    blamed = pixels(Image.open(png))
    assert (blamed == drawn(tmp_path / "own", example_group(), 1, 3, "grouptd", "grpo")).all()
    assert main(["view", str(log), "--png", str(png), "--turn", "1.5.15", "--force"]) == 0
    assert (pixels(Image.open(png)) != blamed).any()
    for arguments in (["--gif", str(log), "--force"], ["--png", str(log), "--force"], ["--png", str(png)]):
        assert main(["view", str(log), *arguments]) == 2
    assert log.read_bytes() == content
    capsys.readouterr()
    for place in ("1.9.1", "2.1.1", "1.2.5"):
        assert main(["view", str(log), "--png", str(png), "--force", "--turn", place]) == 2
        assert f"the log has no turn {place}: --turn is GROUP.ROLLOUT.TURN" in capsys.readouterr().err
    for place in ("0.1.1", "1.2", "", "1.2.x"):
        with pytest.raises(SystemExit):
            main(["view", str(log), "--png", str(png), "--force", "--turn", place])
        assert "GROUP.ROLLOUT.TURN expected" in capsys.readouterr().err
    assert main(["view", str(log)]) == 2
    assert "nothing to write: pass --out FILE.html" in capsys.readouterr().err


def test_a_turn_that_several_rollouts_share_has_the_number_that_the_command_credit_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    groups = [random_fork(rng, random_group(rng))[0] for _ in range(20)]
    shared = [assigned(credit.make("grpo"), [group])[0].flat_advantages.tolist() for group in groups]
    assert shared != [credit.make("grpo").assign(group).flat_advantages.tolist() for group in groups]
    log, drawn = tmp_path / "log.jsonl", dict[str, Credit]()
    monkeypatch.setattr(view, "write_png", lambda *arguments: drawn.update(arguments[4]))
    for group, expected in zip(groups, shared, strict=True):
        with log.open("w", encoding="utf-8") as stream:
            write_jsonl(stream, [group])
        assert main(["view", str(log), "--schemes", "grpo", "--png", str(tmp_path / "turn.png")]) == 0
        assert drawn["grpo"].flat_advantages.tolist() == pytest.approx(expected)
