"""Writing a fictional encyclopedia of up to a million articles to disk, one article at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer, new_folder
from creditflow.envs.wikisearch.retrieval.base import Passage, write_document
from creditflow.envs.wikisearch.retrieval.store import write_store
from creditflow.envs.wikisearch.world.articles import article
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_SEED, Encyclopedia
from creditflow.envs.wikisearch.world.graph import World, make_world
from creditflow.envs.wikisearch.world.selection import select_questions

__all__ = ["build_wiki"]


def _no_progress(done: int) -> None:
    """No progress output."""
    del done


MAX_ARTICLES_WITH_QUESTIONS = 200_000


def build_wiki(
    out: str | Path,
    *,
    articles: int,
    seed: int = DEFAULT_SEED,
    questions: int = 0,
    index: bool = False,
    replace: bool = False,
    progress: Callable[[int], None] = _no_progress,
) -> None:
    """Write an encyclopedia.

    Writes ``<out>/passages.jsonl.gz``; with ``index`` the folder ``<out>/index`` (see ``store``) instead; with
    ``questions`` also the questions of each split in the native format: ``train.jsonl``, ``valid.jsonl``, ``test.jsonl``.

    Args:
        out: a new folder; it appears when it is complete.
        articles: 200 to a million; passages are written as they are made.
        seed: random seed of the world.
        questions: number of questions; needs the world in memory, so at most 200,000 articles.
        index: write an index folder that is memory-mapped when opened.
        replace: replace an existing folder.
        progress: called with the number of articles written, every thousand.

    Raises:
        ConfigError: out of range.
        DataError: the folder exists (without ``replace``), or there are too many articles for questions.
    """
    out = Path(out)
    if out.exists() and not replace:
        raise DataError(f"{out} already exists; choose a new folder")
    if questions and articles > MAX_ARTICLES_WITH_QUESTIONS:
        raise DataError(f"questions are made for at most {MAX_ARTICLES_WITH_QUESTIONS} articles, got {articles}")
    world = make_world(seed, articles)
    with new_folder(out, replace=replace) as folder:
        _write(folder, world, questions, index, progress)


def _write(folder: Path, world: World, questions: int, index: bool, progress: Callable[[int], None]) -> None:
    stream = _passages(world, progress)
    if index:
        write_store(folder / "index", stream)
    else:
        _write_lines(folder / "passages.jsonl.gz", (json.dumps(write_document(p), ensure_ascii=False) for p in stream))
    if questions:
        by_split: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
        for chosen in select_questions(Encyclopedia(world), questions):
            by_split[chosen.split].append(json.dumps(chosen.question.to_json(), ensure_ascii=False))
        for split, lines in by_split.items():
            _write_lines(folder / f"{split}.jsonl", iter(lines))


def _passages(world: World, progress: Callable[[int], None]) -> Iterator[Passage]:
    for number in range(world.articles):
        yield from article(world, number).passages
        if number % 1000 == 999 or number + 1 == world.articles:
            progress(number + 1)


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    with atomic_writer(path, encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines)
