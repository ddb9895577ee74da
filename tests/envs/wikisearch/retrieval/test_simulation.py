"""Simulated search: the curriculum of noise, documents of the corpus, and the environment over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.worlds.wikisearch_small import questions, search, small_env
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.retrieval.corpus import MemoryCorpus
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.simulation import CorpusSimulator, Curriculum, is_noisy, open_simulation

PROBABILITY = st.floats(0, 1)
NOISY, CLEAN = {"start": 1.0, "end": 1.0}, {"start": 0.0, "end": 0.0}


# -- the curriculum -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("curriculum", "progress", "expected"),
    [
        (Curriculum(), 0.0, 0.0),
        (Curriculum(), 1.0, 0.5),
        (Curriculum(), 0.5, 0.5 * (2 - 1) / 3),
        (Curriculum(start=0.25, end=0.75), 0.5, 0.25 + 0.5 / 3),
        (Curriculum(start=0.5, end=0.5), 0.3, 0.5),
        (Curriculum(start=0.6, end=0.0), 1.0, 0.0),
        (Curriculum(end=1.0, base=16), 0.75, 7 / 15),
        (Curriculum(end=1.0, base=1), 0.3, 0.3),
        (Curriculum(), 7.0, 0.5),
        (Curriculum(), -1.0, 0.0),
    ],
)
def test_known_probabilities(curriculum: Curriculum, progress: float, expected: float) -> None:
    assert curriculum.at(progress) == pytest.approx(expected, abs=1e-12)


@given(start=PROBABILITY, end=PROBABILITY, base=st.floats(1e-3, 1e3), x=PROBABILITY, y=PROBABILITY)
def test_the_noise_stays_between_its_ends_and_moves_one_way(
    start: float, end: float, base: float, x: float, y: float
) -> None:
    curriculum = Curriculum(start=start, end=end, base=base)
    earlier, later = (curriculum.at(progress) for progress in sorted((x, y)))
    low, high = sorted((start, end))
    assert low - 1e-9 <= min(earlier, later) <= max(earlier, later) <= high + 1e-9
    assert (later - earlier) * (end - start) >= -1e-9


@given(base=st.floats(1e-6, 1e-3), x=PROBABILITY)
def test_a_base_near_1_is_nearly_a_straight_line(base: float, x: float) -> None:
    assert Curriculum(end=1.0, base=1.0 + base).at(x) == pytest.approx(x, abs=base)


@pytest.mark.parametrize(
    "options", [{"start": -0.1}, {"end": 1.5}, {"base": 0.0}, {"base": 1e9}, {"start": float("nan")}, {"end": "0.5"}, {"end": True}, {"end": 10**400}]
)  # fmt: skip
def test_wrong_numbers_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="of a simulation are"):
        Curriculum(**options)


@given(st.integers(0, 9), st.text(max_size=5), st.text(max_size=5), PROBABILITY, PROBABILITY)
def test_what_is_noisy_stays_noisy_at_every_higher_probability(
    seed: int, question: str, query: str, p: float, q: float
) -> None:
    low, high = sorted((p, q))
    assert is_noisy(seed, question, query, low) <= is_noisy(seed, question, query, high)
    assert not is_noisy(seed, question, query, 0.0)
    assert is_noisy(seed, question, query, 1.0)


def test_as_many_queries_are_noisy_as_the_probability_says() -> None:
    for probability in (0.1, 0.5, 0.8):
        found = np.mean([is_noisy(1, "q", str(number), probability) for number in range(4_000)])
        assert abs(found - probability) < 4 * (probability * (1 - probability) / 4_000) ** 0.5


# -- documents of the corpus ----------------------------------------------------------------------------------------------
def local_of(env: WikiSearchEnv) -> LocalRetriever:
    assert isinstance(env.library.retriever, LocalRetriever)
    return env.library.retriever


@pytest.mark.parametrize("k", [1, 3, 10])
def test_noisy_passages_have_neither_evidence_nor_an_answer_and_useful_ones_have_what_the_query_names(k: int) -> None:
    env = small_env()
    simulate = CorpusSimulator(local_of(env))
    useful_evidence = plain_evidence = 0
    for question in questions(env):
        golden = set(question.supporting)
        for step in question.steps:
            noisy = simulate(question, step.question, k, True)
            assert noisy
            assert not {p.id for p in noisy} & golden
            assert not any(normalized_phrase(answer, p.contents) for p in noisy for answer in question.answers)
            useful = simulate(question, step.question, k, False)
            for found in (noisy, useful):
                assert len(found) <= k
                assert len({p.id for p in found}) == len(found)
            assert len(useful) == k
            useful_evidence += len({p.id for p in useful} & golden)
            plain_evidence += len({hit.passage.id for hit in local_of(env).search([step.question], k)[0]} & golden)
    assert useful_evidence > plain_evidence


def test_useful_passages_keep_the_order_of_the_engine() -> None:
    env = small_env()
    simulate = CorpusSimulator(local_of(env))
    for question in questions(env):
        for name in question.supporting:
            [passage] = local_of(env).named(name)
            engine = [hit.passage.id for hit in local_of(env).search([passage.title], 50)[0]]
            useful = [p.id for p in simulate(question, passage.title, 50, False) if p.id in engine]
            golden = [name for name in useful if name in question.supporting]
            assert golden == [name for name in engine if name in golden]
            assert (
                useful[len(golden) :]
                == [name for name in engine if name not in question.supporting][: len(useful) - len(golden)]
            )


def test_a_query_about_something_else_gets_what_the_engine_finds() -> None:
    env = small_env()
    simulate = CorpusSimulator(local_of(env))
    question = questions(env)[0]
    names = {word for name in question.supporting for p in local_of(env).named(name) for word in p.contents.split()}
    corpus = local_of(env).corpus
    assert isinstance(corpus, MemoryCorpus)
    other = next(p for p in corpus.passages if not set(p.title.split()) & names)
    found = [hit.passage.id for hit in local_of(env).search([other.title], 3)[0]]
    assert [p.id for p in simulate(question, other.title, 3, False)] == found


# -- the environment ------------------------------------------------------------------------------------------------------
def test_an_environment_without_noise_finds_evidence_and_with_noise_alone_never() -> None:
    for options, evidence in ((CLEAN, True), (NOISY, False)):
        env = small_env(simulation=options)
        for task_id in env.tasks.task_ids()[:6]:
            env.reset(options={"task_id": task_id})
            for step in env.episode.question.steps:
                info = search(env, step.question)
            assert bool(info["evidence"]) is evidence


def test_the_noise_follows_the_progress_of_training() -> None:
    env = small_env(simulation={"start": 0.0, "end": 1.0}, max_steps=50)
    found = []
    for progress in (0.0, 0.5, 0.9, 1.0):
        env.training_progress = progress
        total = 0
        for task_id in env.tasks.task_ids():
            env.reset(options={"task_id": task_id})
            total += int(search(env)["evidence"])
        found.append(total)
    assert found == sorted(found, reverse=True)
    assert found[0] > found[1] > 0
    assert found[3] == 0


def test_pages_cannot_be_visited_but_those_that_were_found() -> None:
    env = small_env(simulation=CLEAN)
    env.reset(seed=0)
    golden = env.episode.question.supporting[-1]
    page = local_of(env).named(golden)[0].title
    assert "no page is called" in env.step(f"visit: {page}")[4]["invalid_reason"]
    search(env, page)
    seen = next(iter(env.episode.evidence.values()))
    assert env.step(f"visit: {seen.title}")[4]["action_valid"]


def test_snapshots_hold_what_was_found_and_continue_elsewhere() -> None:
    env, other = (small_env(simulation={"start": 0.3, "end": 0.3, "seed": 5}) for _ in range(2))
    env.reset(seed=1)
    search(env)
    state = env.get_state()
    observation, info = other.set_state(state)
    assert other.get_state() == state
    assert info["state_key"] == search_free_key(env)
    assert search(other, "a town")["state_key"] == search(env, "a town")["state_key"]
    assert not env.oracle.exact
    assert observation.startswith("Results for")


def search_free_key(env: WikiSearchEnv) -> str:
    return str(env.set_state(env.get_state())[1]["state_key"])


def test_drawn_by_call_the_same_query_is_noisy_in_some_calls_and_the_same_again_for_the_same_seed() -> None:
    def found(seed: int, draw: str) -> list[int]:
        env = small_env(simulation={"start": 0.5, "end": 0.5, "draw": draw}, max_steps=50)
        env.reset(seed=seed, options={"task_id": env.tasks.task_ids()[0]})
        query = local_of(env).named(env.episode.question.supporting[0])[0].title
        golden = set(env.episode.question.supporting)
        return [len(golden & set(search(env, query)["doc_ids"])) for _ in range(30)]

    assert len(set(found(1, "query"))) == 1
    assert found(1, "query") == found(2, "query")
    by_call = found(1, "call")
    assert by_call == found(1, "call") != found(2, "call")
    assert 3 < sum(hits > 0 for hits in by_call) < 27


def test_drawn_by_call_neither_another_episode_nor_a_restored_snapshot_repeats_the_draws() -> None:
    env = small_env(simulation={"start": 0.5, "end": 0.5, "draw": "call"})
    names = {"task_id": env.tasks.task_ids()[0]}
    env.reset(seed=3, options=names)
    query, start = local_of(env).named(env.episode.question.supporting[0])[0].title, env.get_state()
    golden = set(env.episode.question.supporting)
    hits = []
    for number in range(40):
        env.set_state(start) if number % 2 else env.reset(options=names)
        hits.append(bool(golden & set(search(env, query)["doc_ids"])))
    assert 3 < sum(hits[::2]) < 17
    assert 3 < sum(hits[1::2]) < 17


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"simulation": {"draw": "cal"}}, "did you mean 'call'"),
        ({"simulation": {"nose": 0.5}}, "unknown option of a simulation 'nose'"),
        ({"simulation": 0.5}, "simulation must be a mapping"),
        ({"simulation": {"end": 2}}, "probabilities"),
        ({"simulation": {"seed": -1}}, "an integer ≥ 0"),
        ({"simulation": {"model": "url"}}, "takes url, model"),
        ({"simulation": {"model": {"adress": "x"}}}, "takes url, model"),
        ({"simulation": {}, "dialect": "browse"}, "no pages to visit"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small_env(**options)


def test_without_a_corpus_here_a_model_is_needed() -> None:
    with pytest.raises(ConfigError, match="pass corpus=PATH, or simulation="):
        open_simulation({}, None)
