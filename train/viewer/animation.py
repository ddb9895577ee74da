"""One rollout as pictures: a still of a turn and an animation of all, each with the text or the board and a bar of credit per turn.

The pictures are drawn by pillow, in the colours of the page. Bars are scaled to the scheme's largest credit in the group.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.atomic import atomic_path
from creditflow.envs.sokoban.tiles import TILE_SIZES, tile_table
from creditflow.train.viewer.boards import board_of_codes, group_boards
from creditflow.train.viewer.pictures import TILE
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["MAX_TURNS", "SIZE", "most_blamed", "write_gif", "write_png"]

SIZE: Final = (640, 360)  # pixels
MAX_TURNS: Final = 200  # of an animation, which is held in memory
TURN_MS, END_MS = 1200, 3000  # that a turn is shown, and the end
INK, SOFT, LINE, GOOD, BAD = "#1f2328", "#57606a", "#d0d7de", "#0969da", "#bc4c00"
MARGIN, TOP, TEXT_LINE, COLUMNS = 14, 42, 20, 82
STRIP, NAME, BAR = 64, 92, 40  # height of a scheme's strip, width of its name, and the widest bar
COLOURS: Final = 32
MAX_TEXT: Final = 2000  # characters, of which the first lines are drawn
Pixels = npt.NDArray[np.uint8]
Reader = Callable[[str], Pixels]


def most_blamed(of_groups: Sequence[Credit]) -> tuple[int, int, int]:
    """Group, rollout and turn of the lowest advantage, counted from 0; the first of several.

    Args:
        of_groups: the credit of each group.
    """
    turns = [
        (float(value), g, r, t)
        for g, credit in enumerate(of_groups)
        for r, values in enumerate(credit.advantages)
        for t, value in enumerate(values)
    ]
    return min(turns)[1:] if turns else (0, 0, 0)


def write_png(
    path: str | Path,
    group: Group,
    rollout: int,
    turn: int,
    by_scheme: Mapping[str, Credit],
    read_frame: Reader | None = None,
) -> None:
    """Write the picture of one turn.

    Args:
        path: the file.
        group: the group.
        rollout, turn: number of the rollout in the group and of its turn, from 0.
        by_scheme: the group's credit of at most two schemes, by name; each has a strip of bars.
        read_frame: pixels of a picture that turns name, uint8 (H, W, 3), or a ``DataError``; None if none are stored.
    """
    picture = _picture(group, rollout, turn, by_scheme, group_boards(group), read_frame)
    with atomic_path(path) as temporary:
        picture.save(temporary, format="PNG", optimize=True)


def write_gif(
    path: str | Path, group: Group, rollout: int, by_scheme: Mapping[str, Credit], read_frame: Reader | None = None
) -> None:
    """Write an endless animation: a picture for every turn of a rollout and one for its end.

    All pictures share one palette, so that only what changes is stored. The arguments are those of ``write_png``.

    Raises:
        ConfigError: the rollout has more than ``MAX_TURNS`` turns.
    """
    member, boards = group.trajectories[rollout], group_boards(group)
    count = len(member.turns) + 1
    if count > MAX_TURNS + 1:
        raise ConfigError(
            f"an animation has at most {MAX_TURNS} turns, and rollout {member.trajectory_id!r} has {count - 1}; choose a shorter one with "
            "--turn, or draw one turn with --png"
        )
    width, height = SIZE
    sheet = Image.new("RGB", (width, height * count))
    for t in range(count):
        sheet.paste(_picture(group, rollout, t, by_scheme, boards, read_frame), (0, height * t))
    reduced = sheet.quantize(COLOURS, dither=Image.Dither.NONE)
    first, *later = [reduced.crop((0, height * t, width, height * (t + 1))) for t in range(count)]
    times = [TURN_MS] * len(later) + [END_MS]
    with atomic_path(path) as temporary:
        first.save(temporary, format="GIF", save_all=True, append_images=later, duration=times, loop=0, optimize=True)


def _picture(
    group: Group,
    rollout: int,
    t: int,
    by_scheme: Mapping[str, Credit],
    boards: Mapping[str, bytes],
    read_frame: Reader | None,
) -> Image.Image:
    """The picture before a turn is taken, or after the last one, with the bars of the turns so far."""
    member = group.trajectories[rollout]
    image = Image.new("RGB", SIZE, "white")
    draw, room = ImageDraw.Draw(image), SIZE[1] - TOP - STRIP * len(by_scheme) - MARGIN
    is_end = t == len(member.turns)
    action = (
        f"the end: {member.stop_reason}, score {member.score:.2f}"
        if is_end
        else f"turn {t + 1} of {len(member.turns)}:  {member.turns[t].action}"
    )
    draw.text((MARGIN, 10), textwrap.shorten(_drawable(action), 68, placeholder=" ..."), fill=INK, font=_font(18))
    turn = next(iter(member.turns[min(t, len(member.turns) - 1) :]), None)  # the end shows what the last turn saw
    board = boards.get(member.final_state_key if is_end else member.turns[t].state_key)
    pixels = _board(board, room) if board is not None else _stored(turn, read_frame)
    if pixels is not None:
        picture = Image.fromarray(pixels)
        picture.thumbnail((SIZE[0] - 2 * MARGIN, room))
        image.paste(picture, (MARGIN, TOP))
    elif turn is not None:
        _text(draw, turn.observation, room)
    for number, (name, credit) in enumerate(by_scheme.items()):
        most = float(np.abs(credit.flat_advantages).max(initial=0.0)) or 1.0
        _strip(draw, SIZE[1] - STRIP * (len(by_scheme) - number), name, credit.advantages[rollout], t, most)
    return image


def _font(size: int) -> Any:
    """Pillow's own font, laid out alike wherever it is drawn: without the library for other scripts, which some systems have."""
    font: Any = ImageFont.load_default(size)
    return font.font_variant(layout_engine=ImageFont.Layout.BASIC)


def _board(board: bytes, room: int) -> Pixels:
    """A Sokoban board at the largest size that fits the room, uint8 (H, W, 3)."""
    codes = np.array([list(map(int, row)) for row in board_of_codes(board).split("/")])
    size = min(max(room // len(codes), TILE_SIZES[0]), 2 * TILE)
    return np.concatenate(np.concatenate(tile_table(size)[codes], axis=1), axis=1).reshape(size * len(codes), -1, 3)


def _stored(turn: Turn | None, read_frame: Reader | None) -> Pixels | None:
    """The first stored picture of a turn, or None."""
    if turn is None or read_frame is None or not turn.images:
        return None
    try:
        return read_frame(turn.images[0])
    except DataError:  # missing or damaged: the text is shown
        return None


def _drawable(text: str) -> str:
    """The beginning of a text, with a question mark for what no font can draw: halves of a surrogate pair, which logs may have."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def _text(draw: ImageDraw.ImageDraw, text: str, room: int) -> None:
    lines = [
        part for line in _drawable(text).replace(" [SEP] ", " | ").splitlines() for part in textwrap.wrap(line, COLUMNS)
    ]
    if len(lines) > room // TEXT_LINE:
        lines = [*lines[: room // TEXT_LINE - 1], "..."]
    for number, line in enumerate(lines):
        draw.text((MARGIN, TOP + number * TEXT_LINE), line, fill=SOFT, font=_font(15))


def _strip(
    draw: ImageDraw.ImageDraw, top: int, name: str, values: npt.NDArray[np.float64], t: int, most: float
) -> None:
    """The bars of a scheme up to turn ``t``, that turn's in a frame with its number beside the name."""
    middle, step = top + STRIP // 2, min(BAR, (SIZE[0] - NAME - 2 * MARGIN) / max(len(values), 1))
    draw.line((0, top, SIZE[0], top), fill=LINE)
    draw.text((MARGIN, top + 11), name if len(name) <= 12 else f"{name[:9]}...", fill=INK, font=_font(14))
    draw.line((NAME + MARGIN, middle, NAME + MARGIN + step * len(values), middle), fill=SOFT)
    if t < len(values):
        value = float(values[t])
        draw.text((MARGIN, top + 31), f"{value:+.2f}" if value else "0.00", fill=_colour(value), font=_font(14))
    for turn, value in enumerate(values[: t + 1].tolist()):
        x = NAME + MARGIN + step * turn
        height = round((STRIP // 2 - 5) * abs(value) / most)
        ends = (middle - height, middle) if value > 0.0 else (middle, middle + height)
        if turn == t:
            draw.rectangle((x, top + 2, x + max(step - 1, 0), top + STRIP - 3), outline=INK)
        if height:
            draw.rectangle((x + step * 0.15, ends[0], x + step * 0.8, ends[1]), fill=_colour(value))


def _colour(value: float) -> str:
    if value == 0.0:
        return SOFT
    return GOOD if value > 0.0 else BAD
