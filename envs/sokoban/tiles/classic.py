"""Theme "classic": as published visual prompts describe gym-sokoban's look, in drawings of our own.

Brown brick walls, black floor, targets outlined in red, yellow crates with an X, a green alien. A target stays visible under
what stands on it, as a red frame around the whole cell; a crate on its target is red too, with a light X.
"""

from __future__ import annotations

from typing import Final

from creditflow.envs.sokoban.tiles.theme import Canvas, Theme

__all__ = ["CLASSIC"]

BRICK, BRICK_LIGHT, MORTAR = 0x9C5A2C, 0xB8743E, 0x4A2A14
GROUND = 0x101014
RED, RED_DARK = 0xE02B2B, 0x5A1010
CRATE, CRATE_DARK = 0xF0C52E, 0x8A6210
CREAM = 0xFFF3D0
GREEN, GREEN_DARK = 0x5CD64A, 0x1F7A1A
WHITE, INK = 0xFFFFFF, 0x101014


def _wall(canvas: Canvas) -> None:
    canvas.fill(MORTAR)
    for row in range(3):
        shift = 0.25 if row % 2 else 0.0
        top = row / 3
        for column in range(-1, 3):
            x = column * 0.5 + shift
            canvas.paint(canvas.box(x + 0.03, top + 0.03, x + 0.47, top + 0.3), BRICK)
            canvas.paint(canvas.box(x + 0.03, top + 0.03, x + 0.47, top + 0.1), BRICK_LIGHT)


def _floor(canvas: Canvas) -> None:
    canvas.fill(GROUND)


def _target(canvas: Canvas) -> None:
    _floor(canvas)
    canvas.paint(canvas.box(0.14, 0.14, 0.86, 0.86), RED_DARK)
    canvas.paint(canvas.frame(0.14, 0.1), RED)


def _crate(canvas: Canvas, light: int, dark: int) -> None:
    canvas.paint(canvas.box(0.1, 0.1, 0.9, 0.9), dark)
    canvas.paint(canvas.box(0.15, 0.15, 0.85, 0.85), light)


def _cross(canvas: Canvas, colour: int, width: float) -> None:
    canvas.paint(canvas.line(0.26, 0.26, 0.74, 0.74, width), colour)
    canvas.paint(canvas.line(0.74, 0.26, 0.26, 0.74, width), colour)


def _box(canvas: Canvas) -> None:
    _floor(canvas)
    _crate(canvas, CRATE, CRATE_DARK)
    _cross(canvas, CRATE_DARK, 0.1)


def _stored(canvas: Canvas) -> None:
    _floor(canvas)
    canvas.paint(canvas.frame(0, 0.06), RED)
    _crate(canvas, RED, RED_DARK)
    _cross(canvas, CREAM, 0.14)


def _alien(canvas: Canvas) -> None:
    for side in (-1, 1):
        canvas.paint(canvas.line(0.5 + 0.1 * side, 0.3, 0.5 + 0.2 * side, 0.13, 0.06), GREEN)
        canvas.paint(canvas.disc(0.5 + 0.2 * side, 0.13, 0.06), GREEN)
        canvas.paint(canvas.line(0.5 + 0.12 * side, 0.75, 0.5 + 0.15 * side, 0.88, 0.12), GREEN_DARK)
        canvas.paint(canvas.line(0.5 + 0.2 * side, 0.66, 0.5 + 0.3 * side, 0.74, 0.09), GREEN_DARK)
    canvas.paint(canvas.oval(0.5, 0.7, 0.2, 0.18), GREEN_DARK)
    canvas.paint(canvas.oval(0.5, 0.41, 0.3, 0.23), GREEN)
    for side in (-1, 1):
        canvas.paint(canvas.oval(0.5 + 0.13 * side, 0.4, 0.1, 0.12), WHITE)
        canvas.paint(canvas.disc(0.5 + 0.11 * side, 0.42, 0.055), INK)
    canvas.paint(canvas.line(0.43, 0.57, 0.57, 0.57, 0.04), GREEN_DARK)


def _player(canvas: Canvas) -> None:
    _floor(canvas)
    _alien(canvas)


def _player_on_target(canvas: Canvas) -> None:
    canvas.fill(RED_DARK)
    canvas.paint(canvas.frame(0, 0.1), RED)
    _alien(canvas)


CLASSIC: Final = Theme(
    wall=_wall, floor=_floor, target=_target, box=_box, box_on_target=_stored, player=_player, player_on_target=_player_on_target
)  # fmt: skip
