"""The oracle against exhaustive search, and what its agents achieve."""

import math
from collections.abc import Sequence

import pytest

import creditflow
from creditflow.agents.scripted import ExpertAgent, NoisyExpert, RandomAgent
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import site_url
from creditflow.envs.wikisearch.retrieval.site import SiteRetriever
from creditflow.envs.wikisearch.rules import Reader, listed_calls
from creditflow.envs.wikisearch.world.encyclopedia import Encyclopedia, load_encyclopedia
from creditflow.train.rollout import play_groups
from creditflow.wrappers.group_env import GroupEnv

WORLD = {"articles": 300, "questions": 24, "seed": 3}


class Exhaustive:
    """Plans by trying every listed sequence of calls."""

    def __init__(self, encyclopedia: Encyclopedia, question: Question, k: int, site: SiteRetriever | None) -> None:
        self.encyclopedia, self.question, self.k, self.site = encyclopedia, question, k, site
        self.reader = Reader(encyclopedia.lexicon)
        self.golden = {encyclopedia.retriever.corpus.row(name) for name in question.supporting}

    def calls(self, rows: frozenset[int]) -> list[Call]:
        corpus = (self.site or self.encyclopedia.retriever).corpus
        known = {
            *self.reader.names_in_question(self.question),
            *(n for row in rows for n in self.reader.names(corpus.passage(row))),
        }
        seen = dict.fromkeys(corpus.passage(row).page for row in sorted(rows))
        if self.site is not None:
            pages = [site_url(page) for page in seen]
        else:
            pages = [
                corpus.passage(corpus.page_rows(page)[0]).title for page in seen if len(corpus.page_rows(page)) > 1
            ]
        return [c for c in listed_calls(self.question, known, pages, False, True) if c.tool != "answer"]

    def after(self, rows: frozenset[int], call: Call) -> frozenset[int]:
        engine = self.site or self.encyclopedia.retriever
        if call.tool == "search":
            return rows | set(engine.rows(call.items[0], self.k))
        return rows | set(engine.visit_rows(call.items[0]))

    def reachable(self, rows: frozenset[int], depth: int) -> bool:
        if self.golden <= rows:
            return True
        if depth == 0:
            return False
        return any(self.reachable(self.after(rows, call), depth - 1) for call in self.calls(rows))


def made(**options: object) -> WikiSearchEnv:
    env = creditflow.make("wikisearch", **{"world": WORLD, **options}).unwrapped
    assert isinstance(env, WikiSearchEnv)
    return env


@pytest.mark.parametrize(("dialect", "most", "expected"), [("plain", 3, 12), ("browse", 4, 5)])
def test_distances_and_optimal_actions_are_those_of_exhaustive_search(dialect: str, most: int, expected: int) -> None:
    env, encyclopedia = made(dialect=dialect), load_encyclopedia(3, 300)
    local = env.library.local
    site = local if isinstance(local, SiteRetriever) else None
    assert (site is not None) == (dialect == "browse")
    checked = 0
    for task in env.tasks.task_ids():
        env.reset(options={"task_id": task})
        snapshot = env.get_state()
        calls = int(env.oracle.distance(snapshot)) - 1
        if calls > most:
            continue
        checked += 1
        search = Exhaustive(encyclopedia, Question.from_json(env.task.content), env.budget.top_k, site)
        nothing: frozenset[int] = frozenset()
        assert search.reachable(nothing, calls)
        assert not search.reachable(nothing, calls - 1)
        best = {
            env.dialect.write(call)
            for call in search.calls(nothing)
            if search.reachable(search.after(nothing, call), calls - 1)
        }
        assert set(env.oracle.optimal_actions(snapshot)) == best
    assert checked >= expected


def test_a_step_shortens_the_distance_by_one_exactly_if_it_is_optimal() -> None:
    env = made()
    for seed in range(6):
        _, info = env.reset(seed=seed)
        while info["admissible_actions"]:
            snapshot = env.get_state()
            distance, best = env.oracle.distance(snapshot), env.oracle.optimal_actions(snapshot)
            listed: Sequence[str] = info["admissible_actions"]
            for action in listed:
                env.set_state(snapshot)
                done = env.step(action)[2]
                after = env.oracle.distance(env.get_state())
                if action in best:
                    assert after == distance - 1
                elif not done:
                    assert distance <= after + 1
                    assert after >= distance
            env.set_state(snapshot)
            info = env.step(best[0])[4]


def test_budgets_bound_the_oracle() -> None:
    env = made(max_calls=1)
    env.reset(seed=0)
    snapshot = env.get_state()
    assert math.isinf(env.oracle.distance(snapshot))
    assert env.oracle.value(snapshot) == 0.0
    free = made()
    far = free.oracle.distance(snapshot)
    assert free.oracle.value(snapshot, steps_left=int(far)) == 1.0
    assert free.oracle.value(snapshot, steps_left=int(far) - 1) == 0.0


def test_after_the_answer_the_value_is_its_score() -> None:
    env = made()
    env.reset(seed=0)
    env.step("answer: " + env.task.content["answers"][0])
    assert (env.oracle.value(env.get_state()), env.oracle.distance(env.get_state())) == (1.0, 0.0)
    env.reset(seed=0)
    env.step("answer: nobody")
    assert (env.oracle.value(env.get_state()), env.oracle.distance(env.get_state())) == (0.0, math.inf)


def test_the_proxy_counts_missing_evidence() -> None:
    env = made(oracle="proxy")
    env.reset(seed=0)
    assert env.oracle.distance(env.get_state()) == len(env.task.content["supporting"]) + 1
    assert env.oracle.optimal_actions(env.get_state())[0].startswith("search: ")


def rate(agent: object, n: int) -> float:
    group = GroupEnv("wikisearch", size=1, panel="standard-v1:test")
    source = group.tasks
    tasks = [source.get(task_id) for task_id in source.task_ids()[:n]]
    played = [t for g in play_groups(group, agent, tasks) for t in g.trajectories]  # type: ignore[arg-type]  # an Agent
    return sum(trajectory.success for trajectory in played) / len(played)


def test_the_expert_answers_99_of_100_and_the_random_agent_less_than_5() -> None:
    assert rate(ExpertAgent(), 100) >= 0.99
    assert rate(RandomAgent(), 100) < 0.05


def test_a_noisy_expert_is_in_between() -> None:
    assert 0.05 < rate(NoisyExpert(0.5), 40) < 0.99
