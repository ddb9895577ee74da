"""The panel ``slices-v1``: fixed questions of eight published data sets, by content; the texts come from the user's files.

Splits are "<data set>-<split>", such as "hotpotqa-dev"; several are joined by "+". A row names its question by a hash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading.json_text import read_json_rows
from creditflow.envs.tasks import PanelRow, load_panel
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.slices.questions import DATA_SETS, question_hash, released_question

__all__ = ["SLICES", "file_of", "find_questions", "listed_ids", "slice_rows"]

SLICES: Final = "slices-v1"
SPLIT_OF: Final = {"nq_open": "dev"}  # of data sets whose rows name no split; of the others "test"
SUFFIXES: Final = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


def slice_rows(folder: Path) -> Iterator[PanelRow]:
    """Yield the rows of the panel from a folder of question files: by data set, in the order of its file.

    Raises:
        DataError: a missing or malformed file.
    """
    for name in DATA_SETS:
        seen = set[str]()
        for _, row in read_json_rows(file_of(folder, name)):
            question = released_question(name, row)
            digest = question_hash(question.text)
            if digest not in seen:  # the same question with other answers is another row of some files
                seen.add(digest)
                split = f"{name}-{row.get('split', SPLIT_OF.get(name, 'test'))}"
                strata = {"data_set": name, "kind": question.kind}
                yield PanelRow(question_task(question).task_id, split, {"question": digest}, strata)


def listed_ids(data_set: str, splits: Collection[str] = ()) -> dict[str, str]:
    """Return the task ids of the panel's questions of a data set, by the hash of their texts; of all splits by default."""
    named = {f"{data_set}-{split}" for split in splits}
    return {
        row.locator["question"]: row.task_id
        for row in load_panel("wikisearch", SLICES).rows
        if row.strata["data_set"] == data_set and (not splits or row.split in named)
    }


def file_of(path: Path, data_set: str) -> Path:
    """Return the file of a data set: the path itself, or the file of that name in a folder.

    Raises:
        DataError: the folder has no such file, or several.
    """
    if not path.is_dir():
        return path
    files = [file for suffix in SUFFIXES if (file := path / f"{data_set}{suffix}").is_file()]
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise DataError(f"{path}: expected one file {data_set}{{{','.join(SUFFIXES)}}}, found {names}")
    return files[0]


def find_questions(rows: Sequence[PanelRow], path: Path) -> dict[str, Question]:
    """Return the questions of rows of the panel, by task id, in the rows' order.

    Args:
        rows: rows of the panel.
        path: the file of their data set, or a folder with a file for each of them.

    Raises:
        ConfigError: one file for rows of several data sets.
        DataError: a malformed file, or a question that is missing or has other answers or evidence.
    """
    sets = dict.fromkeys(str(row.strata["data_set"]) for row in rows)
    if len(sets) > 1 and not path.is_dir():
        raise ConfigError(
            f"the panel's rows are of {', '.join(sets)}: questions must be a folder with a file for each, got {path}"
        )
    by_task: dict[str, Question] = {}
    for name in sets:
        hashes = {row.locator["question"] for row in rows if row.strata["data_set"] == name}
        for where, row in read_json_rows(file_of(path, name)):
            if isinstance(row, dict) and question_hash(row.get("question", row.get("Question"))) in hashes:
                try:
                    question = released_question(name, row)
                except DataError as error:
                    raise DataError(f"{where}: {error}") from error
                by_task[question_task(question).task_id] = question
    missing = [row for row in rows if row.task_id not in by_task]
    if missing:
        raise DataError(
            f"{path}: {len(missing)} of {len(rows)} questions of panel {SLICES} are missing or have other answers or evidence, the first "
            f"{missing[0].locator['question']} of {missing[0].split}; `creditflow data check {missing[0].strata['data_set']} FILE` says which"
        )
    return {row.task_id: by_task[row.task_id] for row in rows}
