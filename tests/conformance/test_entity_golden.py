"""GDCR, SAPO and E-GRPO against vectors computed from the papers' equations by two implementations each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from helpers.shared_data import shared_file

from creditflow import credit
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

STD_KIND = {0: "population", 1: "sample"}
RULE = {"normalised_phrase": "normalized", "exact_substring": "exact_substring"}
ENDS: dict[str, StopReason] = {"ok": "failed", "format_error": "format", "overlength": "token_limit"}


def cases(family: str, kind: str) -> list[Any]:
    data = json.loads(shared_file(f"conformance/search_credit/{family}.json").read_text(encoding="utf-8"))
    return [
        pytest.param(c["input"], c["expected"], data["tolerance"], id=c["id"])
        for c in data["cases"]
        if c["kind"] == kind
    ]


def test_every_kind_of_golden_case_is_tested() -> None:
    kinds = {}
    for family in ("gdcr", "sapo", "egrpo"):
        data = json.loads(shared_file(f"conformance/search_credit/{family}.json").read_text(encoding="utf-8"))
        kinds[family] = {case["kind"] for case in data["cases"]}
    assert kinds == {"gdcr": {"trajectory"}, "sapo": {"advantages", "objective"}, "egrpo": {"group", "objective"}}


def trajectory(name: str, turns: list[Turn], end: StopReason) -> Trajectory:
    return Trajectory(name, "g", "task", tuple(turns), end == "success", float(end == "success"), end, "s")


def turn(**fields: Any) -> Turn:
    return Turn("s", "a", "s", **fields)


def close(found: Any, wanted: Any, tolerance: float) -> None:
    np.testing.assert_allclose(found, np.array(wanted, np.float64), rtol=0.0, atol=tolerance)


def known(numbers: Any) -> list[float]:
    """null means "none": infinitely far."""
    return [np.inf if number is None else number for number in numbers]


# -- GDCR ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("given", "expected", "tolerance"), cases("gdcr", "trajectory"))
def test_gdcr_rewards_follow_the_papers_order_of_thought_and_observation(
    given: Any, expected: Any, tolerance: float
) -> None:
    graph, steps = given["graph"], given["steps"]
    aliases = graph.get("aliases", {})
    nodes = [{"name": name, "aliases": aliases.get(name, [])} for name in graph["nodes"]]
    task = {"entities": nodes, "edges": graph["edges"], "answer_node": graph["answer"]}
    rule, directed = RULE[given["match"]], given["directed_towards_answer"]
    matcher = EntityGraph.from_task(task).matcher(rule)  # type: ignore[arg-type]  # a literal, through a table
    shown = ["", *(step["observation"] or "" for step in steps)]
    # no log holds the text after the last turn: its entities are what the environment recorded
    last = tuple(graph["nodes"][number] for number in matcher.found(shown[-1]))
    turns = [
        turn(thought=step["thought"], observation=before, entities=last if t == len(steps) - 1 else ())
        for t, (step, before) in enumerate(zip(steps, shown, strict=False))
    ]
    group = Group((trajectory("t", turns, "failed"),), task)
    # a log whose turns have no observations is rejected; such cases are marked
    source = "text" if any(shown[1:-1]) or len(steps) == 1 else "entities"
    scheme = credit.make("gdcr", decay=given["k"], directed=directed, rule=rule, observations=source)
    found = scheme.assign(group).diagnostics
    entities = EntityGraph.from_task(task)
    assert list(entities.names) == list(expected["distance"])
    close(entities.distances(directed=directed), known(expected["distance"].values()), tolerance)
    close(entities.contributions(given["k"], directed=directed), list(expected["contribution"].values()), tolerance)
    wanted = expected["steps"]
    for name, key in (("cite_reward", "r_cite"), ("retrieve_reward", "r_ret")):
        close(found[name], [step[key] for step in wanted], tolerance)
    close(scheme.assign(group).flat_step_rewards, [step["r"] for step in wanted], tolerance)
    for name, key in (("cited", "new_cited"), ("retrieved", "new_retrieved")):
        assert [sorted(names) for names in found[name]] == [sorted(step[key]) for step in wanted]
    assert found["distance"].tolist() == known(step["d_step"] for step in wanted)
    assert found["best_distance"].tolist() == known(step["d_best"] for step in wanted)


# -- SAPO ---------------------------------------------------------------------------------------------------------------
def searches_with_rewards(rewards: list[list[float]]) -> tuple[list[list[Turn]], dict[str, Any]]:
    """Turns that retrieve entities of a chain of powers of 2, so that each turn gets the given reward."""
    sizes, task_entities, edges = [], ["N0"], []
    copies: dict[int, int] = {}
    turns = []
    for row in rewards:
        used: dict[int, int] = {}
        steps = []
        for wanted in row:
            names, rest = [], wanted
            for distance in range(1, 12):
                while rest >= 0.5**distance:
                    number = used[distance] = used.get(distance, 0) + 1
                    copies[distance] = max(copies.get(distance, 0), number)
                    names.append(f"D{distance} {number}")
                    rest -= 0.5**distance
            assert rest == 0.0, "the vectors' rewards are sums of powers of 2"
            steps.append(turn(entities=tuple(names)))
            sizes.append(len(names))
        turns.append(steps)
    for distance in range(1, max(copies, default=0) + 1):
        copies.setdefault(distance, 1)
        for number in range(1, copies[distance] + 1):
            task_entities.append(f"D{distance} {number}")
            edges.append([f"D{distance} {number}", "to", "N0" if distance == 1 else f"D{distance - 1} 1"])
    return turns, {"entities": task_entities, "edges": edges, "answer_node": "N0"}


@pytest.mark.parametrize(("given", "expected", "tolerance"), cases("sapo", "advantages"))
def test_sapo_combines_outcome_and_step_advantages_as_in_the_paper(given: Any, expected: Any, tolerance: float) -> None:
    turns, task = searches_with_rewards(given["gdcr"])
    group = Group(
        tuple(
            Trajectory(
                f"{i}", "g", "task", tuple(steps), score == 1.0, score, "success" if score == 1.0 else "failed", "s"
            )
            for i, (steps, score) in enumerate(zip(turns, given["outcome_rewards"], strict=True))
        ),
        task,
    )
    std_kind = STD_KIND[given["ddof"]]
    scheme = credit.make(
        "sapo", step_weight=given["lambda"], std_eps=given["eps"], std_kind=std_kind,
        outcome="score", observations="entities",
    )  # fmt: skip
    scored = scheme.assign(group)
    close(np.concatenate(scored.step_rewards), np.concatenate(given["gdcr"]), 1e-12)
    close(scored.outcome_advantages, expected["A_o"], tolerance)
    for i, wanted in enumerate(expected["per_trajectory"]):
        close(group.arrays.split(scored.diagnostics["step_advantage"])[i], wanted["A_g"], tolerance)
        close(scored.advantages[i], wanted["A"], tolerance)


# -- E-GRPO -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("given", "expected", "tolerance"), cases("egrpo", "group"))
def test_egrpo_rewards_failed_trajectories_by_the_entities_in_their_thoughts(
    given: Any, expected: Any, tolerance: float
) -> None:
    members = []
    for i, rollout in enumerate(given["rollouts"]):
        end = "success" if rollout["correct"] and rollout["status"] == "ok" else ENDS[rollout["status"]]
        members.append(trajectory(f"{i}", [turn(thought=text) for text in rollout["thoughts"]], end))
    group = Group(tuple(members), {"entities": given["entities"]})
    scheme = credit.make("egrpo", match_weight=given["alpha"], std_eps=given["eps"], std_kind=STD_KIND[given["ddof"]])
    scored = scheme.assign(group)
    for name in ("gamma", "gamma_hat", "reward"):
        close(scored.diagnostics[name], expected[name], tolerance)
    close(scored.outcome_advantages, expected["advantage"], tolerance)
    for advantages, mask, advantage, in_loss in zip(
        scored.advantages, scored.loss_mask, expected["advantage"], expected["in_loss"], strict=True
    ):
        close(advantages, np.full(len(advantages), advantage), tolerance)
        assert (mask == in_loss).all()


# -- objectives: what the declared aggregation makes of clipped ratios ------------------------------------------------------
def clipped(ratios: list[float], advantage: float, low: float, high: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    ratio = np.array(ratios)
    out: np.ndarray[Any, np.dtype[np.float64]] = np.minimum(
        ratio * advantage, np.clip(ratio, 1.0 - low, 1.0 + high) * advantage
    )
    return out


def scored_by(name: str) -> credit.Credit:
    task = {"entities": ["N"], "edges": [], "answer_node": "N"}
    return credit.make(name).assign(Group((trajectory("t", [turn()], "failed"),), task))


@pytest.mark.parametrize(("given", "expected", "tolerance"), cases("sapo", "objective"))
def test_sapo_averages_over_each_trajectorys_tokens_then_over_trajectories(
    given: Any, expected: float, tolerance: float
) -> None:
    assert scored_by("sapo").aggregation == "trajectory_mean"
    low, high = given["eps_low"], given["eps_high"]
    means = [
        clipped(r, a, low, high).mean() for r, a in zip(given["ratios"], given["advantage_per_trajectory"], strict=True)
    ]
    close(np.mean(means), expected, tolerance)


@pytest.mark.parametrize(("given", "expected", "tolerance"), cases("egrpo", "objective"))
def test_egrpo_averages_over_all_tokens_that_are_in_the_loss(given: Any, expected: float, tolerance: float) -> None:
    assert scored_by("egrpo").aggregation == "group_token_mean"  # the case is one group
    low, high = given["eps_low"], given["eps_high"]
    rows = zip(given["ratios"], given["advantage"], given["in_loss"], strict=True)
    kept = [clipped(r, a, low, high) for r, a, in_loss in rows if in_loss]
    close(np.concatenate(kept).mean(), expected, tolerance)
