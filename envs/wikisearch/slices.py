"""The panel ``slices-v1``: fixed questions of eight published data sets, by content; the texts come from the user's files.

Splits are "<data set>-<split>", such as "hotpotqa-dev"; several are joined by "+". A row names its question by a hash.

Files of the authors and of collections that repack them differ in the order of answers, in spaces, and in how golden passages are named
(ids of a corpus, or titles). In the form here answers are sorted, spaces are single and golden passages are titles, so that its hash,
the task id, is the same for the same question, answers and evidence. A question of a slice belongs to no corpus.
Not all copies of a data set have its ids, so a question is found by its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading.json_text import read_json_rows
from creditflow.envs.tasks import PanelRow, content_id
from creditflow.envs.wikisearch.question_files import read_question
from creditflow.envs.wikisearch.questions import Question, question_task

__all__ = ["DATA_SETS", "SLICES", "file_of", "find_questions", "question_hash", "released_question"]

DATA_SETS: Final = ("hotpotqa", "2wiki", "musique", "nq_open", "triviaqa", "popqa", "bamboogle", "frames")


def _clean(text: Any) -> str:
    return " ".join(str(text).split())


def question_hash(text: Any) -> str:
    """Return the hash of a question's text, 16 hex digits."""
    return content_id("", _clean(text))[1:17]


def released_question(data_set: str, row: Any) -> Question:
    """Return the question of a row of a published file.

    Its ``kind`` is "<data set>/<type>", or the data set alone where questions have no types. Its id is the authors', or the
    hash of its text in data sets without ids.

    Args:
        data_set: one of ``DATA_SETS``.
        row: of the authors' file, or a repacked one; see ``question_files``.

    Raises:
        DataError: a missing or malformed key.
    """
    question = read_question(row)
    common = {"question": _clean(question.text), "answers": sorted({_clean(answer) for answer in question.answers})}
    evidence = EVIDENCE.get(data_set)
    if evidence is None:
        return read_question({**common, "id": question_hash(question.text), "type": data_set}, "plain")
    try:
        gold, kind = evidence(row)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(f"not a question of {data_set}: {error!r}") from error
    return read_question({**common, **gold, "id": question.id, "type": f"{data_set}/{kind}"}, data_set)


def _titles(row: Mapping[str, Any]) -> list[list[str]]:
    """The golden passages' titles, sorted, as facts in the authors' form."""
    facts = row["supporting_facts"]
    titles: Iterable[Any] = facts["title"] if isinstance(facts, Mapping) else [fact[0] for fact in facts]
    return [[title] for title in sorted(set(map(_clean, titles)))]


def _hotpot(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return {"supporting_facts": _titles(row)}, str(row["type"])


def _two_wiki(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    triples = [[_clean(text) for text in triple] for triple in row["evidences"]]
    return {"evidences": triples, "supporting_facts": _titles(row)}, str(row["type"])


def _musique(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    paragraphs = {paragraph["idx"]: paragraph["title"] for paragraph in row.get("paragraphs", [])}
    steps = []
    for step in row.get("decomposition", row.get("question_decomposition")):
        title = step["support_title"] if "support_title" in step else paragraphs[step["paragraph_support_idx"]]
        question = step.get("sub_question", step.get("question"))
        answer = step.get("sub_answer", step.get("answer"))
        steps.append({"question": _clean(question), "answer": _clean(answer), "support_title": _clean(title)})
    return {"decomposition": steps}, str(row["id"]).partition("__")[0]


EVIDENCE: Final = {"hotpotqa": _hotpot, "2wiki": _two_wiki, "musique": _musique}


SLICES: Final = "slices-v1"
SUFFIXES: Final = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


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
            f"{missing[0].locator['question']} of {missing[0].split}"
        )
    return {row.task_id: by_task[row.task_id] for row in rows}
