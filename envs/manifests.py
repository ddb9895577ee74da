"""Manifests of released data that the package embeds, ids and content hashes but none of the data; and a copy compared with one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import parse_json

__all__ = ["KINDS", "DataReport", "Difference", "Item", "PartReport", "embedded_manifest", "problem_text", "verify"]

KINDS: Final = ("same", "changed", "missing", "unusable", "extra")
SHOWN: Final = 5  # differences of one kind that the text names; JSON has all
NAMED_EXTRAS: Final = 1_000  # extras that a report names; a catalogue may have a million
MAX_PROBLEM: Final = 300  # characters


def embedded_manifest(env: str, name: str, version: int) -> dict[str, Any]:
    """Return the JSON object of a manifest.

    Args:
        env: the environment, such as "webshop".
        name: the manifest, such as "small-v1".
        version: the format that is expected.

    Raises:
        DataError: no JSON object of this format.
    """
    where = f"manifest {env}/{name}"
    data = parse_json((files("creditflow.assets") / "manifests" / env / f"{name}.json").read_text("ascii"), where=where)
    if not isinstance(data, dict) or data.get("format_version") != version:
        raise DataError(f"{where}: not in manifest format {version}")
    return data


class Item(NamedTuple):
    """One item of the data that is compared.

    Attributes:
        part: the split or file to which it belongs.
        name: its name in the manifest, such as the path of a game.
        digest: hash of its content.
        problem: why it cannot be used; "" if it can.
    """

    part: str
    name: str
    digest: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One item that is not as published.

    Attributes:
        part: the split or file to which it belongs.
        kind: how it differs, one of ``KINDS``.
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
        listed: number of items in our manifest, with which the data was compared.
        counts: number of items found, by kind.
    """

    part: str
    listed: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DataReport:
    """The result of ``creditflow data check``.

    Attributes:
        data: name of the data set.
        manifest: name of the manifest.
        path: folder or archive that was checked.
        parts: one report for each split or file.
        differences: items that are not as published; of very many extras the first.
        source: how to get the released data.
    """

    data: str
    manifest: str
    path: str
    parts: Sequence[PartReport]
    differences: Sequence[Difference]
    source: str

    @property
    def complete(self) -> bool:
        """Whether every listed item is as published."""
        return all(report.counts["same"] == report.listed for report in self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {**asdict(self), "complete": self.complete}

    def to_text(self) -> str:
        """Return the report for a reader: counts, and the first differences of each kind."""
        lines = [f"{self.path}: {self.data}, compared with {self.manifest}"]
        for report in self.parts:
            counts = ", ".join(f"{count:,} {kind}" for kind, count in report.counts.items() if count) or "nothing found"
            lines.append(f"{report.part} ({report.listed:,} listed): {counts}")
            for kind in KINDS:
                chosen = [item for item in self.differences if (item.part, item.kind) == (report.part, kind)]
                for difference in chosen[:SHOWN]:
                    detail = f" ({difference.detail})" if difference.detail else ""
                    lines.append(f"    {kind}: {difference.name}{detail}")
                if chosen and report.counts[kind] > SHOWN:
                    lines.append(f"    {kind}: and {report.counts[kind] - SHOWN:,} more (see --json)")
        ending = (
            "everything that is listed is as released" if self.complete else f"this is not the release: {self.source}"
        )
        return "\n".join([*lines, ending])


def verify(
    data: str,
    manifest: str,
    path: str,
    listed: Mapping[tuple[str, str], str],
    found: Iterable[Item],
    *,
    parts: Collection[str],
    source: str,
) -> DataReport:
    """Compare the items of a copy with a manifest, in one pass.

    Args:
        data: name of the data set.
        manifest: name of the manifest.
        path: what was read.
        listed: (part, name) -> hash of the content, in the release's order.
        found: the items of the copy; those of other parts are left out.
        parts: the parts to report.
        source: how to get the released data.
    """
    expected = {key: digest for key, digest in listed.items() if key[0] in parts}
    kinds = dict.fromkeys(expected, ("missing", ""))
    counts = {part: dict.fromkeys(KINDS, 0) for part in parts}
    differences = list[Difference]()
    for item in found:
        key = (item.part, item.name)
        if item.part not in counts:
            continue
        if key in expected:
            kind = "same" if item.digest == expected[key] else "changed"
            kinds[key] = ("unusable", item.problem) if item.problem else (kind, "")
            continue
        kind = "unusable" if item.problem else "extra"
        counts[item.part][kind] += 1
        if counts[item.part][kind] <= NAMED_EXTRAS:
            differences.append(Difference(item.part, kind, _printable(item.name), item.problem))
    for (part, name), (kind, detail) in kinds.items():
        counts[part][kind] += 1
        if kind != "same":
            differences.append(Difference(part, kind, _printable(name), detail))
    sizes = Counter(part for part, _ in expected)
    reports = [PartReport(part, sizes[part], counts[part]) for part in parts]
    order = {part: i for i, part in enumerate(parts)}
    differences.sort(key=lambda difference: (order[difference.part], KINDS.index(difference.kind), difference.name))
    return DataReport(data, manifest, path, reports, differences, source)


def problem_text(error: Exception) -> str:
    """Why an item cannot be used, as one short line."""
    return " ".join(str(error).split())[:MAX_PROBLEM]


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)
