"""Questions of published data sets in one form, whatever file they come from and whatever corpus is searched.

Files of the authors and of collections that repack them differ in the order of answers, in spaces, and in how golden passages are named
(ids of a corpus, or titles). In the form here answers are sorted, spaces are single and golden passages are titles, so that its hash,
the task id, is the same for the same question, answers and evidence. A question of a slice belongs to no corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from creditflow.envs.errors import DataError
from creditflow.envs.tasks import content_id
from creditflow.envs.wikisearch.files.question_files import read_question
from creditflow.envs.wikisearch.questions import Question

__all__ = ["DATA_SETS", "question_hash", "released_question"]

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
