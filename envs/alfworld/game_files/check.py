"""``creditflow data check alfworld``: found games compared with the manifest of the release, the panel ``released-v2``.

What is compared is a game's content (``content.py``), not its bytes: JSON's formatting, line ends, comments and the
published solution do not matter. The manifest has two hashes of every game: the task id, of the whole content, and
``world``, of the content without task sentence and wording. A game of the same world with another task id is the same
house and goal, reworded.

The manifest lacks the content of 20 games of the release, which are known by name only (``named-v1``): of these a check says
whether they are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from creditflow.envs.alfworld.game_files.folder import (
    FOLDER_SPLITS,
    GAME_FILE,
    expanded,
    find_root,
    iter_archive,
    list_games,
)
from creditflow.envs.alfworld.game_files.identity import game_task, world_id
from creditflow.envs.alfworld.game_files.reading import content_from_fields, fields_from_file
from creditflow.envs.data_report import DataReport, Difference, PartReport
from creditflow.envs.errors import DataError, check_name, short_repr
from creditflow.envs.manifests import embedded_manifest
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.tasks import PanelRow, load_panel

__all__ = ["MANIFEST", "PUBLISHED", "FoundGame", "compare_games", "listed_games", "named_games", "read_games"]

RELEASED_WORDING: Final = "move"  # dialect of all released games
MAX_PROBLEM: Final = 300  # characters


@dataclass(frozen=True, slots=True)
class FoundGame:
    """One game file.

    Attributes:
        path: ``<split>/<task>/<trial>/game.tw-pddl``.
        task_id: hash of its content; "" if it cannot be used.
        released_wording_id: the same with the commands and replies of the release.
        world: hash of its content without words.
        sentence: the task sentence.
        task_type: one of the six task types.
        problem: why it cannot be used, else "".
    """

    path: str
    task_id: str = ""
    released_wording_id: str = ""
    world: str = ""
    sentence: str = ""
    task_type: str = ""
    problem: str = ""


def read_games(path: str | Path, splits: Collection[str]) -> Iterator[FoundGame]:
    """Yield the games of a folder (sorted by path) or of an archive (in its order, which may have a path twice).

    Args:
        path: a folder as ``find_root`` accepts it, or a ``.tar``, ``.tar.gz`` or ``.tar.xz`` of one.
        splits: only these.

    Raises:
        ConfigError: no such folder, or one without splits.
        DataError: an unreadable folder, a damaged archive, more games than the limit, an archive without games.
    """
    source = expanded(str(path))
    if source.is_file():
        yield from _archived(source, splits)
        return
    root = find_root(str(path))
    for split in (name for name in FOLDER_SPLITS if name in splits):
        for file in list_games(root / split) if (root / split).is_dir() else ():
            yield _found(file.relative_to(root).as_posix(), partial(fields_from_file, file))


def _archived(path: Path, splits: Collection[str]) -> Iterator[FoundGame]:
    empty = True
    for name, data in iter_archive(path):
        if name.endswith(GAME_FILE):
            empty = False
            if name.split("/", 1)[0] in splits:
                yield _found(name, partial(parse_json, data, where=name))
    if empty:
        raise DataError(f"{path}: contains no <split>/<task>/<trial>/{GAME_FILE} with split {', '.join(FOLDER_SPLITS)}")


def _found(name: str, read: Callable[[], Any]) -> FoundGame:
    try:
        fields = read()
        content = content_from_fields(fields, name)
    except DataError as error:
        return FoundGame(name, problem=" ".join(str(error).split())[:MAX_PROBLEM])
    if fields.get("solvable") is False:
        return FoundGame(name, problem="the file declares the game unsolvable, so loaders skip it")
    task_id = game_task(content).task_id
    reworded = _reworded_id(content, task_id)
    return FoundGame(name, task_id, reworded, world_id(content), content["sentence"], content["goal"][0])


def _reworded_id(content: Mapping[str, Any], task_id: str) -> str:
    if content["dialect"] == RELEASED_WORDING:
        return task_id
    return game_task({**content, "dialect": RELEASED_WORDING}).task_id


MANIFEST: Final = "released-v2"
PUBLISHED: Final = {"train": 3_553, "valid_seen": 140, "valid_unseen": 134}  # games of the release
KINDS: Final = ("same", "text unknown", "reworded", "other world", "missing", "unusable", "extra")
NAMED: Final = "named-v1"  # manifest of the games whose content is unknown
NAMED_FORMAT: Final = 1
UNKNOWN: Final = "a game of the release that the manifest knows by name only"
TWICE: Final = "the archive contains this path twice"


def listed_games(splits: Sequence[str]) -> tuple[PanelRow, ...]:
    """Return the rows of the manifest for these splits.

    Raises:
        ConfigError: an unknown split.
    """
    for split in splits:
        check_name("split", split, PUBLISHED)
    return tuple(row for row in load_panel("alfworld", MANIFEST).rows if row.split in splits)


def named_games(splits: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the games of these splits whose content is unknown."""
    paths = embedded_manifest("alfworld", NAMED, NAMED_FORMAT)["games"]
    return tuple(path for path in paths if path.split("/", 1)[0] in splits)


def compare_games(
    path: str, found: Iterable[FoundGame], rows: Sequence[PanelRow], named: Sequence[str] = ()
) -> DataReport:
    """Compare games with rows of the manifest.

    Args:
        path: what was read, for the report.
        found: the games, of the splits of these rows; see ``read_games``.
        rows: the manifest's rows; see ``listed_games``.
        named: paths of further games of the release; see ``named_games``.
    """
    expected = {row.locator["path"]: row for row in rows}
    paths = {row.task_id: row.locator["path"] for row in rows}
    kinds: dict[str, tuple[str, str]] = {}
    for game in found:
        again = game.path in kinds  # which of the two a program reads depends on the program
        row = expected.get(game.path)
        kinds[game.path] = ("unusable", TWICE) if again else _compared(game, row, game.path in named, paths)
    counts = {row.split: Counter[str]() for row in rows}
    unknown = [name for name in named if name.split("/", 1)[0] in counts]
    absent = dict.fromkeys(expected, "") | dict.fromkeys(unknown, UNKNOWN)
    kinds |= {name: ("missing", detail) for name, detail in absent.items() if name not in kinds}
    differences: list[Difference] = []
    for name, (kind, detail) in kinds.items():
        split = name.split("/", 1)[0]
        counts[split][kind] += 1
        if kind != "same":
            differences.append(Difference(split, kind, _printable(name), detail))
    listed = Counter(row.split for row in rows)
    names = Counter(name.split("/", 1)[0] for name in unknown)
    reports = [_part(split, listed[split], names[split], counts[split]) for split in PUBLISHED if split in counts]
    order = sorted(differences, key=lambda one: (list(PUBLISHED).index(one.part), KINDS.index(one.kind), one.name))
    return DataReport("alfworld", MANIFEST, path, reports, order)


def _compared(game: FoundGame, row: PanelRow | None, named: bool, paths: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind of a game, one of ``KINDS``, and the detail of its difference."""
    if game.problem:
        return "unusable", game.problem
    copy = paths.get(game.task_id)
    if row is None and named:
        kind = game.path.split("/")[1].split("-", 1)[0]
        if kind != game.task_type:
            return "other world", f"the path is of a game of type {kind}, the game is of type {game.task_type}"
        if copy:
            return "other world", f"a copy of {copy}"
        return "text unknown", UNKNOWN
    if row is None:
        return "extra", f"a copy of {copy}" if copy else "not listed"
    if game.task_id == row.task_id:
        return "same", ""
    if game.world != row.strata["world"]:
        return "other world", f"it is {copy}" if copy else "another house or goal at this path"
    if game.released_wording_id == row.task_id:
        return "reworded", "other commands and replies"
    words = f"another task sentence: {short_repr(game.sentence, 120)}"
    return "reworded", words if game.released_wording_id == game.task_id else f"{words}; other commands and replies"


def _part(split: str, listed: int, named: int, counts: Mapping[str, int]) -> PartReport:
    unlisted = PUBLISHED[split] - listed - named
    of_kind = {kind: counts[kind] for kind in KINDS}
    as_listed = of_kind["same"] == listed
    all_unchanged = of_kind["text unknown"] == named and not of_kind["unusable"] and of_kind["extra"] == unlisted
    verdict = _of_listed(split, unlisted, of_kind, all_unchanged) if as_listed else _of_others(split, listed, of_kind)
    return PartReport(split, PUBLISHED[split], listed, of_kind, as_listed, as_listed and all_unchanged, verdict)


def _of_listed(split: str, unlisted: int, found: Mapping[str, int], whole: bool) -> str:
    """Return what a split can stand for whose listed games are all as released."""
    panel = f"can stand for panel='{MANIFEST}:{split}': every listed game is as released"
    if whole:
        unknown = unlisted + found["text unknown"]
        unlisted_note = (
            f"; the texts of {unknown} more, as many as the release has, are not in the manifest" if unknown else ""
        )
        return f"{panel}; can stand for the released {split}{unlisted_note}"
    if gone := found["missing"] + found["other world"]:
        return (
            f"{panel}. Not for the released {split}: {gone} of its games are not there; get them by `alfworld-download`"
        )
    more = found["extra"] + found["unusable"]
    if more < unlisted:
        return f"{panel}. Of the released {split} at least {unlisted - more} games are missing, which are not in the manifest"
    return (
        f"{panel}. Not for the released {split}: loaders that walk the folder meet {more} more files, the release has "
        f"{unlisted}; play the panel, or move away what is unusable or extra"
    )


def _of_others(split: str, listed: int, found: Mapping[str, int]) -> str:
    """Return what a split can stand for whose listed games are not all as released, and how to mend it."""
    if found["same"] + found["reworded"] == listed:
        return (
            f"the released worlds, {found['reworded']:,} reworded: an agent that reads plays other tasks than in the released "
            f"{split}; report this with every score, or get the release by `alfworld-download`"
        )
    if not found["same"]:
        return f"cannot stand for {split}; get the release by `alfworld-download`"
    return (
        f"cannot stand for {split}: {found['same']:,} of {listed:,} listed games are as released; get the others by "
        f"`alfworld-download`, or report with every score which part it is about"
    )


def _printable(path: str) -> str:
    return path if path.isprintable() else short_repr(path, 200)
