"""What an import read, what it left out, and what it had to assume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from creditflow.envs.errors import DataError
from creditflow.train.text_table import text_table
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import Log

__all__ = ["ImportReport", "RowError", "Tally", "require_any"]

LONGEST_EXAMPLE: Final = 300  # characters


class RowError(DataError):
    """Raised for one row that cannot be read.

    Attributes:
        reason: a constant text, by which rows are counted.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


@dataclass
class Tally:
    """Counts of one import.

    Attributes:
        strict: whether the first row that cannot be read is an error.
        rows: rows of the file.
        left_out: rows or rollouts left out, by reason.
        examples: the first of them, by reason: where, and what was wrong.
        notes: what was assumed or adjusted, with the number of rollouts or turns concerned.
        turns, empty: turns read, and those of them in which the model wrote nothing.
    """

    strict: bool = False
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    empty: int = 0

    def leave_out(self, where: str, error: RowError) -> None:
        """Count a row that cannot be read.

        Raises:
            DataError: with ``strict``; names the row.
        """
        if self.strict:
            raise DataError(f"{where}: {error}") from error
        self.left_out[error.reason] += 1
        self.examples.setdefault(error.reason, f"{where}: {error}"[:LONGEST_EXAMPLE])

    def note(self, text: str, count: int = 1) -> None:
        """Count an assumption or adjustment; 0 does nothing."""
        if count:
            self.notes[text] += count


@dataclass(frozen=True)
class ImportReport:
    """Result of an import.

    Attributes:
        source: library whose log it is.
        log: the groups, and the order of the rollouts in the file.
        tally: counts.
    """

    source: str
    log: Log
    tally: Tally

    @property
    def groups(self) -> tuple[Group, ...]:
        """In order of first appearance."""
        return self.log.groups

    @property
    def rollouts(self) -> int:
        """Number of trajectories."""
        return sum(map(len, self.groups))

    def warnings(self) -> list[str]:
        """What keeps schemes from comparing anything, counted: empty texts, groups of one, groups with equal outcomes."""
        groups, texts = self.groups, list[str]()
        if self.tally.empty:
            texts.append(
                f"{self.tally.empty:,} of {self.tally.turns:,} responses are empty: is some text under another key?"
            )
        single = sum(len(group) == 1 for group in groups)
        if single:
            sizes = Counter(map(len, groups)).most_common(3)
            most = ", ".join(f"{count:,} of {size}" for size, count in sizes)
            texts.append(
                f"{single:,} of {len(groups):,} groups have one rollout, which nothing is compared with (groups by size: {most}); is "
                "their group or task named wrongly? --group FIELD names it"
            )
        dead = sum(len(group) > 1 and len({m.episode_return for m in group.trajectories}) == 1 for group in groups)
        if dead == len(groups) - single and dead:
            texts.append(
                f"all rollouts of every group have equal rewards ({dead:,} groups): outcomes alone teach nothing"
            )
        return texts

    def to_json(self) -> dict[str, Any]:
        """Counts as plain values: what was read, what was left out and why, what was assumed."""
        return {
            "source": self.source,
            "rows": self.tally.rows,
            "groups": len(self.groups),
            "rollouts": self.rollouts,
            "turns": sum(len(group.turns) for group in self.groups),
            "successes": sum(member.success for group in self.groups for member in group.trajectories),
            "groups_of_one": sum(len(group) == 1 for group in self.groups),
            "left_out": [
                {"reason": reason, "count": count, "first": self.tally.examples[reason]}
                for reason, count in self.tally.left_out.items()
            ],
            "warnings": self.warnings(),
            "notes": [{"note": note, "count": count} for note, count in self.tally.notes.items()],
        }

    def to_text(self) -> str:
        """The same as tables."""
        data = self.to_json()
        counts = ("rows", "groups", "rollouts", "turns", "successes", "groups_of_one")
        parts = [text_table([["read", ""], *([name.replace("_", " "), f"{data[name]:,}"] for name in counts)])]
        if data["left_out"]:
            rows = [[f"{row['count']:,}", row["reason"], row["first"]] for row in data["left_out"]]
            parts.append(text_table([["left out", "reason", "first"], *rows]))
        parts += [f"warning: {warning}" for warning in data["warnings"]]
        if data["notes"]:
            parts.append(
                text_table([["count", "note"], *([f"{row['count']:,}", row["note"]] for row in data["notes"])])
            )
        return "\n\n".join(parts)


def require_any(path: str, groups: Sequence[Group], tally: Tally) -> None:
    """Raise DataError, with the reasons, if nothing could be read, or if the model never wrote anything."""
    if groups and tally.empty == tally.turns:
        raise DataError(
            f"{path}: all {tally.turns:,} responses are empty, so there is nothing to learn; the model's text is expected where this "
            "format has it: in messages under 'content', with the role 'assistant'"
        )
    if groups:
        return
    reasons = "; ".join(f"{count} × {tally.examples[reason]}" for reason, count in tally.left_out.most_common(3))
    raise DataError(f"{path}: no rollout could be read" + (f" of {tally.rows} rows: {reasons}" if reasons else ""))
