"""A judge of pivots that follows PiCA's rules by comparing strings: names in queries, answers in results and in thoughts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NAME = re.compile(r"[A-Z]\w+(?: [A-Z]\w+)*")
LEADING = {"Who", "In", "Which", "Where", "When", "What", "The"}
LACKS = re.compile(r"does not|no mention|not named|nothing about")


def names_in(text: str) -> set[str]:
    """Runs of capitalised words, without the question word at the start."""
    return {name for name in NAME.findall(text) if name not in LEADING}


def scripted_judge(case: Mapping[str, Any]) -> dict[str, Any]:
    """Labels by the rules, read off the case alone."""
    steps, golden = case["steps"], case["golden_sub_questions"]
    thoughts_after = [*(step["thought"] for step in steps[1:]), case["final_thought"]]
    labels = []
    for t, (step, thought) in enumerate(zip(steps, thoughts_after, strict=True)):
        query = " ".join(step["query"]) if isinstance(step["query"], list) else step["query"]
        asked = [sub for sub in golden if names_in(sub["sub_question"]) <= names_in(query)]
        labels.append("+" if any(_is_pivot(sub, step, thought, t < len(steps) - 1) for sub in asked) else "-")
    answer = str(case["final_answer"]).lower()
    if labels and "-" not in labels and not any(text.lower() in answer for text in case["correct_answer"]):
        labels[-1] = "-"  # the conclusion is drawn from the last result
    return {"reason": "", "labels": labels}


def _is_pivot(sub: Mapping[str, str], step: Mapping[str, Any], thought: str, continues: bool) -> bool:
    if sub["answer"] in step["result"]:
        return sub["answer"] in thought  # otherwise passed over, or another piece of it was taken
    return continues and bool(LACKS.search(thought))  # otherwise invented, or not recognised
