"""Theme "plain": flat shapes on a light floor; every kind of cell has a shape and a colour of its own."""

from __future__ import annotations

from typing import Final

from creditflow.envs.sokoban.tiles.theme import Canvas, Theme

__all__ = ["PLAIN"]

BRICK, MORTAR = 0x5B6678, 0x3C4452
GROUND, SPECK = 0xF1ECDF, 0xDDD5C0
RED = 0xD83A34
WOOD, WOOD_DARK = 0xC98B45, 0x7A4B1C
STORED, STORED_DARK = 0x4FA85B, 0x1E5E2B
BODY, OUTLINE, SKIN = 0x2F6FD0, 0x173366, 0xF6CFA6
WHITE, INK = 0xFFFFFF, 0x222222


def _wall(canvas: Canvas) -> None:
    canvas.fill(MORTAR)
    for row in range(4):
        shift = 0.25 if row % 2 else 0.0
        for column in range(-1, 3):
            x = column * 0.5 + shift
            canvas.paint(canvas.box(x + 0.03, row / 4 + 0.03, x + 0.47, row / 4 + 0.22), BRICK)


def _floor(canvas: Canvas) -> None:
    canvas.fill(GROUND)
    canvas.paint(canvas.frame(0, 0.02), SPECK)


def _target(canvas: Canvas) -> None:
    _floor(canvas)
    canvas.paint(canvas.disc(0.5, 0.5, 0.32) & ~canvas.disc(0.5, 0.5, 0.2), RED)
    canvas.paint(canvas.disc(0.5, 0.5, 0.1), RED)


def _crate(canvas: Canvas, light: int, dark: int) -> None:
    _floor(canvas)
    canvas.paint(canvas.box(0.07, 0.07, 0.93, 0.93), dark)
    canvas.paint(canvas.box(0.13, 0.13, 0.87, 0.87), light)
    canvas.paint(canvas.frame(0.21, 0.04), dark)


def _box(canvas: Canvas) -> None:
    _crate(canvas, WOOD, WOOD_DARK)
    canvas.paint(canvas.line(0.32, 0.32, 0.68, 0.68, 0.1), WOOD_DARK)
    canvas.paint(canvas.line(0.68, 0.32, 0.32, 0.68, 0.1), WOOD_DARK)


def _stored(canvas: Canvas) -> None:
    _crate(canvas, STORED, STORED_DARK)
    canvas.paint(canvas.line(0.33, 0.52, 0.45, 0.65, 0.12), WHITE)
    canvas.paint(canvas.line(0.45, 0.65, 0.68, 0.36, 0.12), WHITE)


def _figure(canvas: Canvas) -> None:
    canvas.paint(canvas.disc(0.5, 0.84, 0.3) & canvas.box(0, 0, 1, 0.92), OUTLINE)
    canvas.paint(canvas.disc(0.5, 0.85, 0.25) & canvas.box(0, 0, 1, 0.88), BODY)
    canvas.paint(canvas.disc(0.5, 0.36, 0.27), OUTLINE)
    canvas.paint(canvas.disc(0.5, 0.36, 0.22), SKIN)
    canvas.paint(canvas.disc(0.5, 0.36, 0.22) & canvas.box(0, 0, 1, 0.27), BODY)
    canvas.paint(canvas.disc(0.41, 0.38, 0.045) | canvas.disc(0.59, 0.38, 0.045), INK)
    canvas.paint(canvas.line(0.43, 0.49, 0.57, 0.49, 0.04), INK)


def _player(canvas: Canvas) -> None:
    _floor(canvas)
    _figure(canvas)


def _player_on_target(canvas: Canvas) -> None:
    _floor(canvas)
    canvas.paint(canvas.disc(0.5, 0.5, 0.49) & ~canvas.disc(0.5, 0.5, 0.38), RED)
    _figure(canvas)


PLAIN: Final = Theme(
    wall=_wall, floor=_floor, target=_target, box=_box, box_on_target=_stored, player=_player, player_on_target=_player_on_target
)  # fmt: skip
