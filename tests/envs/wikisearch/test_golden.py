"""Parity with the published systems, on golden data that they computed."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from helpers.shared_data import shared_files

from creditflow.agents.language_model.parsing import PROJECTIONS
from creditflow.envs.wikisearch.actions import truncate_turn
from creditflow.envs.wikisearch.grading.rewards import (
    FORMAT_RULES,
    REWARDS,
    Reward,
    Transcript,
    final_answer,
    retrieved_answer,
    search_r1_format,
    second_answer,
)
from creditflow.envs.wikisearch.grading.scoring import exact_match, normalize_answer, set_f1, sub_match, token_f1
from creditflow.envs.wikisearch.protocol.dialects import DIALECTS, SearchR1, doc_lines
from creditflow.envs.wikisearch.retrieval.base import read_document


def cases(*families: str) -> list[Any]:
    found = []
    for path in shared_files("conformance/search_credit/*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["family"] in families:
            found += [pytest.param(case, data["tolerance"], id=case["id"]) for case in data["cases"]]
    return found


def close(found: float, wanted: float, tolerance: float) -> bool:
    return abs(found - wanted) <= tolerance


def sequence(given: Any) -> Transcript:
    prompt, marker, response = re.split(r"(<\|im_start\|>assistant\s*|$)", given["sequence"], maxsplit=1)
    golden = tuple(given.get("target", []))
    return Transcript(response, golden, prompt=prompt + marker) if marker else Transcript(prompt, golden, marked=False)


SCORES = {
    "em": lambda i: exact_match(i["prediction"], i["golden"]),
    "subem": lambda i: sub_match(i["prediction"], i["golden"]),
    "f1_pica_setoverlap": lambda i: set_f1(i["prediction"], i["golden"]),
    "f1_multiset": lambda i: token_f1(i["prediction"], i["golden"]),
    "searchr1_em_reward": lambda i: replace(REWARDS["search_r1"], incorrect_bad_format=i["format_score"])(sequence(i)),
    "searchr1_subem_reward": lambda i: replace(REWARDS["search_r1_sub_em"], incorrect_bad_format=i["format_score"])(
        sequence(i)
    ),
    "searchr1_em_format_reward": lambda i: search_r1_format(
        structure_format_score=i["structure_format_score"],
        final_format_score=i["final_format_score"],
        retrieval_score=i["retrieval_score"],
    )(sequence(i)),
}
EXACT = {
    "normalize": lambda i: normalize_answer(i["text"]),
    "searchr1_extract": lambda i: second_answer(sequence(i)),
    "searchr1_format_valid": lambda i: FORMAT_RULES["search_r1"](sequence(i))._asdict(),
    "searchr1_retrieval_correct": lambda i: retrieved_answer(sequence(i)),
    "pica_answer_last": lambda i: final_answer(Transcript(i["response"], ())) is not None,
}


@pytest.mark.parametrize(("case", "tolerance"), cases("qa_scoring"))
def test_answers_are_scored_as_published(case: Any, tolerance: float) -> None:
    kind, given, wanted = case["kind"], case["input"], case["expected"]
    if kind in SCORES:
        assert close(SCORES[kind](given), wanted, tolerance)
    elif kind in EXACT:
        assert EXACT[kind](given) == wanted
    else:
        assert kind == "pica_f1_reward"
        transcript = Transcript(given["response"], tuple(given["target"]))
        found = {
            "score": REWARDS["pica"](transcript),
            "answer_correct": REWARDS["pica"].grade(transcript) or 0.0,
            "em": Reward(answer="final").grade(transcript) or 0.0,
        }
        assert all(close(found[name], wanted[name], tolerance) for name in found)


def released_step(dialect: SearchR1, given: Any) -> dict[str, Any]:
    """One turn of the published loop, written with our dialect."""
    call, last = dialect.parse(given["text"]).call, dialect.limit() if given["is_last"] else ""
    if call is None:
        return {"observation": dialect.invalid() + last, "done": 0, "valid": 0, "is_search": 0}
    if call.tool == "answer":
        return {"observation": "", "done": 1, "valid": 1, "is_search": 0}
    text = given["search_stub"].replace("{query}", call.items[0]).replace("\\n", "\n") if given["do_search"] else ""
    return {"observation": dialect.information(text) + last, "done": 0, "valid": 1, "is_search": 1}


@pytest.mark.parametrize(("case", "tolerance"), cases("env_protocol"))
def test_the_protocol_is_the_published_one(case: Any, tolerance: float) -> None:
    kind, given, wanted = case["kind"], case["input"], case["expected"]
    if kind == "rewardflow_projection":
        action, reason = PROJECTIONS["search"](given["text"])
        assert {"action": action, "valid": int(not reason)} == wanted
    elif kind == "searchr1_parse_action":
        call = DIALECTS["search_r1"].parse(given["text"]).call
        assert wanted == (
            {"action": None, "content": ""} if call is None else {"action": call.tool, "content": call.items[0]}
        )
    elif kind == "searchr1_truncate_turn":
        assert truncate_turn(given["raw"]) == wanted
    elif kind.endswith("_format_passages"):
        documents = [read_document(hit["document"], quotes=True) for hit in given["result"]]
        assert doc_lines([(passage.title, passage.text) for passage in documents]) == wanted
    else:
        assert kind.endswith("_env_step")
        dialect = DIALECTS["pica" if kind.startswith("pica") else "search_r1"]
        assert isinstance(dialect, SearchR1)
        assert released_step(dialect, given) == wanted
