"""How far the rule labeller of pivots agrees with a judge that follows all rules of PiCA's appendix A, on fresh rollouts.

An agent asks the golden sub-questions of the embedded encyclopedia in order and writes thoughts. In two of five searches it
makes a mistake of one kind. The judge is scripted (``tests/helpers/scripted_pivot_judge.py``): it sees what an LLM judge
sees and compares strings, so the table says what the rule labeller cannot know, not how good a language model is.

  python tests/evidence/pica/labels.py [--questions 200]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from helpers.scripted_pivot_judge import names_in, scripted_judge

from creditflow import make
from creditflow.envs.wikisearch.questions import Question
from creditflow.train.annotate.success.labelling import JudgeLabeller, agreement, golden_sub_questions, label_log
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group

FAULTS = ("none", "omission", "deviation", "misreading")
FAULT_RATE = 0.4


def play(env: Recorder, seed: int, elsewhere: Sequence[str], rng: np.random.Generator) -> tuple[Group, list[str]]:
    """One episode, and the fault of every search."""
    env.set_next_episode(group_id=f"g{seed}", trajectory_id="t")
    env.reset(seed=seed)
    payload = dict(env.base.task.content)
    question = Question.from_json(payload)
    thoughts, faults = ["I ask the first sub-question."], []
    for sub in golden_sub_questions(question):
        fault = str(rng.choice(FAULTS[1:])) if rng.random() < FAULT_RATE else "none"
        query = str(rng.choice(elsewhere)) if fault == "deviation" else sub["sub_question"]
        result, *_ = env.step(f"search: {query}")
        faults.append(fault)
        wrong = sorted(names_in(str(result)) - names_in(query) - {sub["answer"]})
        if fault == "omission":
            thoughts.append("I see many things here and go on.")
        elif fault == "misreading" and wrong:
            thoughts.append(f"The answer to this is {wrong[0]}.")
        elif sub["answer"] in str(result):
            thoughts.append(f"The answer to this is {sub['answer']}.")
        else:
            thoughts.append("The result does not say it.")
    answer = question.answers[0] if set(faults) == {"none"} else "unknown"
    env.step(f"answer: {answer}")
    member = env.trajectory
    turns = tuple(replace(turn, thought=thought) for turn, thought in zip(member.turns, thoughts, strict=True))
    return Group((replace(member, turns=turns),), payload), faults


def study(questions: int) -> dict[str, Any]:
    """Agreement in all and by fault: searches, and how many each labeller calls a pivot."""
    rng = np.random.default_rng(0)
    env = Recorder(make("wikisearch", panel="standard-v1:valid", top_k=3, max_steps=8))
    elsewhere = ["Where is the oldest bridge of the north?", "Which river rises near Orm?"]
    groups, faults_of = [], {}
    for seed in range(questions):
        group, faults = play(env, seed, elsewhere, rng)
        groups.append(group)
        faults_of[group.group_id] = faults
    by_judge, by_rule = label_log(groups, JudgeLabeller(scripted_judge)), label_log(groups)
    rule_labels = {labels.group_id: labels.turn_labels for labels in by_rule.labels}
    counts = {fault: Counter[str]() for fault in FAULTS}
    for labels in by_judge.labels:
        rows = zip(faults_of[labels.group_id], labels.turn_labels, rule_labels[labels.group_id], strict=False)
        for fault, judge, rule in rows:
            counts[fault].update({"searches": 1, "judge": judge == "+", "rule": rule == "+", "equal": judge == rule})
    return {
        "questions": questions,
        "skipped": {"judge": dict(by_judge.skipped), "rule": dict(by_rule.skipped)},
        "agreement": asdict(agreement(groups, by_judge.labels, by_rule.labels)),
        "by_fault": {fault: dict(count) for fault, count in counts.items()},
    }


def main() -> int:
    """Print the study as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=200)
    print(json.dumps(study(parser.parse_args().questions), indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
