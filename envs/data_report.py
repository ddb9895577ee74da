"""What a check of released data found: items that are as published, and every one that is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["DataReport", "Difference", "PartReport"]

SHOWN = 5  # differences of one kind that the text names; JSON has all


@dataclass(frozen=True, slots=True)
class Difference:
    """One item that is not as published.

    Attributes:
        part: the split or file to which it belongs.
        kind: how it differs, such as "missing".
        name: name of the item, such as the path of a game.
        detail: what was found, and what follows from it.
    """

    part: str
    kind: str
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class PartReport:
    """One published split or file.

    Attributes:
        part: its name.
        published: number of items in the release, or in a slice of it.
        listed: number of items in our manifest, with which the data was compared.
        counts: number of items found, by kind ("same", "missing", …).
        listed_complete: whether every listed item is as published.
        published_complete: whether, besides, there are exactly as many items as published. The content of items that
            the manifest does not list is not known.
        verdict: what the data can stand for, and how to mend it.
    """

    part: str
    published: int
    listed: int
    counts: Mapping[str, int]
    listed_complete: bool
    published_complete: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class DataReport:
    """The result of ``creditflow data check``.

    Attributes:
        data: name of the data set.
        manifest: name of the manifest.
        path: folder or archive that was checked.
        parts: one report for each split or file.
        differences: items that are not as published; of very many of one kind the first.
    """

    data: str
    manifest: str
    path: str
    parts: Sequence[PartReport]
    differences: Sequence[Difference]

    @property
    def complete(self) -> bool:
        """Whether every listed item is as published."""
        return all(report.listed_complete for report in self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {**asdict(self), "complete": self.complete}

    def to_text(self) -> str:
        """Return the report for a reader: counts, verdicts, and the first differences of each kind."""
        lines = [f"{self.path}: {self.data}, compared with {self.manifest}"]
        for report in self.parts:
            counts = ", ".join(f"{count:,} {kind}" for kind, count in report.counts.items() if count) or "nothing found"
            published = "" if report.published == report.listed else f"{report.published:,} published, "
            lines += [
                f"{report.part} ({published}{report.listed:,} listed): {counts}",
                f"  {report.verdict}",
            ]
            lines += self._examples(report)
        return "\n".join(lines)

    def _examples(self, part: PartReport) -> list[str]:
        lines: list[str] = []
        for kind in dict.fromkeys(difference.kind for difference in self.differences if difference.part == part.part):
            of_kind = [
                difference for difference in self.differences if (difference.part, difference.kind) == (part.part, kind)
            ]
            lines += [
                f"    {kind}: {difference.name}" + (f" ({difference.detail})" if difference.detail else "")
                for difference in of_kind[:SHOWN]
            ]
            if part.counts[kind] > SHOWN:
                lines.append(f"    {kind}: and {part.counts[kind] - SHOWN:,} more (see --json)")
        return lines
