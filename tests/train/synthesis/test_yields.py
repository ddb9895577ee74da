"""What is counted of a synthesis: questions that repeat others are told from new ones."""

from __future__ import annotations

from typing import Any

from creditflow.envs.wikisearch.questions import Entity, Question
from creditflow.train.synthesis.settings import SynthesisSettings
from creditflow.train.synthesis.yields import Yield


def question(start: str, *, end: str = "Vik", text: str = "") -> Question:
    """The birth place of the director of a film."""
    names = (start, "Ada", end)
    return Question(
        id=start, text=text or f"Where was the director of {start} born?", answers=(end,),
        entities=tuple(Entity(name, ()) for name in names), answer_node=end,
        edges=((start, "director", "Ada"), ("Ada", "birth_place", end)),
    )  # fmt: skip


def line(number: int, kept: Question | None) -> dict[str, Any]:
    reason = "" if kept else "shortcut"
    return {"candidate": number, "recipe": "walk", "reason": reason, "question": kept.to_json() if kept else None}


def test_the_same_facts_the_same_text_and_a_third_question_with_one_end_repeat_others() -> None:
    found = Yield(SynthesisSettings(limit=5, attempts=10, recipes=("walk",), same_end=2))
    assert found.repeats(question("A")) == ""
    found.add(line(0, question("A")))
    assert found.repeats(question("A", text="Otherwise?")) == "repeated"
    assert found.repeats(question("B", end="Moss", text=question("A").text)) == "repeated"
    assert found.repeats(question("B")) == ""
    found.add(line(3, question("B")))
    assert found.repeats(question("C")) == "repeated end"
    assert found.repeats(question("C", end="Moss")) == ""
    found.add(line(4, None))
    assert (len(found.questions), found.candidates) == (2, 5)
    assert found.reasons == {("walk", "dead end"): 2, ("walk", "shortcut"): 1}
