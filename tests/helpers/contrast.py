"""Contrast of two colours, as WCAG 2.2 (1.4.3) defines it."""

from __future__ import annotations

__all__ = ["contrast"]


def contrast(one: str, other: str) -> float:
    """The ratio of two colours such as ``#0969da``, 1 to 21."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
