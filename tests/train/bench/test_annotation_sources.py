"""Annotation sources: fitted on other rollouts, or exact; never fitted on the rollouts that are scored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import LOGITS, chain, policy, simulate, table_policy
from helpers.worlds.gridworlds import grid_tasks

from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import ConfigError
from creditflow.train.bench.annotation_sources import annotated_log, open_annotation_source
from creditflow.train.bench.controls import ExactEvaluator
from creditflow.train.bench.document import read_results
from creditflow.train.bench.learning.batch import Sampling
from creditflow.train.bench.learning.learner import KLUpdate
from creditflow.train.bench.methods import (
    base_method,
    can_be_annotated,
    default_schemes,
    scheme_entry,
    settings_of,
    with_annotation_sources,
)
from creditflow.train.bench.selection import select_methods
from creditflow.train.bench.shared.cells import learn_shared
from creditflow.train.cli import main
from creditflow.train.rollout import play_group
from creditflow.wrappers import credit
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group

ANNOTATED = ("igpo", "mt_ppo", "pica", "prm", "steppo")
# they read a language model's view of its own actions, a judge's citations or milestones, or a critic of tokens, which tables do not have
WITHOUT_SOURCE = {"beacon", "ppo_gae"}
every = pytest.mark.parametrize("name", ANNOTATED)


def played(size: int, seed: int = 0, slip: float = 0.0):
    return simulate(chain(slip=slip), policy()[None], size, np.random.default_rng(seed))[0]


def advantages(name: str, group: Group) -> np.ndarray:
    return scheme_entry(name).scheme_for(3, "state").assign(group).flat_advantages


def test_every_scheme_that_reads_annotations_has_a_source() -> None:
    reading = {name for name in credit.names() if credit.make(name).needs}
    assert reading == set(ANNOTATED) | WITHOUT_SOURCE
    assert set(ANNOTATED) == {name for name in credit.names() if can_be_annotated(name)}


@every
def test_every_source_writes_what_its_scheme_reads(name: str) -> None:
    evaluator = ExactEvaluator(chain(), policy())
    for method in (f"{name}[fitted]", f"{name}[exact]"):
        source = open_annotation_source(method, 3, "state")
        source.update(played(64, 1))
        assert np.isfinite(advantages(method, source.annotate(played(8), evaluator))).all()


@every
def test_array_groups_and_groups_of_trajectories_get_the_same_annotations(name: str) -> None:
    found = []
    for materialise in (False, True):
        groups = [played(size, seed) for size, seed in ((32, 1), (8, 0))]
        if materialise:
            groups = [Group(group.trajectories) for group in groups]
        source = open_annotation_source(f"{name}[fitted]", 3, "state")
        source.update(groups[0])
        found.append(advantages(name, source.annotate(groups[1])))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)


def test_annotations_never_depend_on_the_outcomes_of_the_scored_group() -> None:
    source = open_annotation_source("pica[fitted]", 3, "state")
    source.update(played(32, 1))
    group = played(8)
    lost = group.annotated({})
    lost.__dict__["arrays"] = replace(group.arrays, success=~group.arrays.success)
    # only the terminal state itself shows how an episode ended
    for name in ("value.pica", "value.critic", "logp.answer.mean"):
        np.testing.assert_array_equal(source.annotate(group).annotation(name), source.annotate(lost).annotation(name))


def test_without_earlier_rollouts_annotations_are_the_prior() -> None:
    group = open_annotation_source("pica[fitted]", 3, "state").annotate(played(8))
    assert set(group.annotation("value.pica")) == {0.5}
    assert set(group.annotation("value.pica.next")) == {0.5}
    critic = open_annotation_source("mt_ppo[fitted]", 3, "state").annotate(played(8))
    assert set(critic.annotation("value.critic")) == {0.0}


def test_fitted_annotations_approach_the_exact_ones_with_many_rollouts() -> None:
    evaluator = ExactEvaluator(chain(horizon=40), policy())  # so long that the turns left do not matter
    many, one = (simulate(evaluator.mdp, policy()[None], n, np.random.default_rng(n))[0] for n in (4000, 8))
    source = open_annotation_source("mt_ppo[fitted]", 40, "state")
    source.update(many)
    for name in ("value.pica", "value.critic"):
        fitted = source.annotate(one).annotation(name)
        exact = open_annotation_source("mt_ppo[exact]", 40, "state").annotate(one, evaluator).annotation(name)
        early = one.left > 30
        np.testing.assert_allclose(fitted[early], exact[early], atol=0.03)


def test_older_rollouts_have_less_weight() -> None:
    source = open_annotation_source("pica[fitted]", 3, "state")
    group = played(16)
    won = group.annotated({})
    won.__dict__["arrays"] = replace(group.arrays, success=np.ones(16, np.bool_))
    lost = group.annotated({})
    lost.__dict__["arrays"] = replace(group.arrays, success=np.zeros(16, np.bool_))
    source.update(won)
    high = source.annotate(group).annotation("value.pica")[0]
    source.update(lost)
    assert high > 0.9 > 0.5 > source.annotate(group).annotation("value.pica")[0]


def test_one_step_temporal_differences_of_exact_values_are_the_exact_advantage() -> None:
    evaluator, group = ExactEvaluator(chain(), policy()), played(8)
    at = evaluator.index_turns(group)
    annotated = open_annotation_source("mt_ppo[exact]", 3, "state").annotate(group, evaluator)
    got = credit.make("mt_ppo", gae_lambda=0.0, whitening=False).assign(annotated).flat_advantages
    np.testing.assert_allclose(got, evaluator.advantage[at.left, at.state, at.action], atol=1e-12)
    np.testing.assert_allclose(annotated.annotation("judge.score"), got, atol=1e-12)


def test_annotation_sources_leave_the_random_numbers_of_other_methods_unchanged() -> None:
    start, sampling = table_policy(LOGITS), Sampling(1, 4)
    curves = [
        learn_shared(
            start,
            [chain()],
            [0],
            [],
            names,
            np.random.default_rng(0),
            sampling=sampling,
            update=KLUpdate(0.01),
            updates=4,
            every=1,
        ).curves["gigpo"]
        for names in (["gigpo"], ["gigpo", "mt_ppo[fitted]", "oracle_adv"])
    ]
    np.testing.assert_array_equal(curves[0].train, curves[1].train)


def test_a_bare_name_gets_the_fitted_source() -> None:
    assert with_annotation_sources(["grpo", "pica", "mt_ppo[exact]", "pica[fitted]"]) == (
        "grpo",
        "pica[fitted]",
        "mt_ppo[exact]",
    )
    assert base_method("flipped(shuffled(igpo[fitted]))") == "igpo[fitted]"
    with pytest.raises(ConfigError, match=r"did you mean 'pica\[fitted\]'"):
        scheme_entry("pica[fited]")
    with pytest.raises(ConfigError, match="reads no annotations"):
        scheme_entry("grpo[exact]")
    with pytest.raises(ConfigError, match="exact values"):
        open_annotation_source("pica[exact]", 3, "state").annotate(played(8))


def test_a_full_run_annotates_for_all_schemes_and_a_quick_one_names_the_option() -> None:
    assert {f"{name}[fitted]" for name in ANNOTATED} <= set(default_schemes(True))
    assert set(ANNOTATED) <= set(default_schemes(False))
    env, source = GroupEnv("grid-pits", size=8), grid_tasks("pits", 0, 2)
    log, earlier = (
        [play_group(env, TabularAgent(optimal_prob=0.6), source.get(i), iteration=n) for i in source.task_ids()]
        for n in (0, 1)
    )
    assert "--schemes pica" in select_methods(["grpo", "pica"], log, horizon=20, exact=True).undefined["pica"]
    found = select_methods(["grpo", "pica[fitted]"], log, horizon=20, exact=True, earlier=earlier)
    assert found.schemes == ("grpo", "pica[fitted]")
    assert {"pica[exact]", "shuffled(pica[fitted])"} <= set(found.controls)
    without = select_methods(["pica[fitted]", "igpo[exact]"], log, horizon=20, exact=False, earlier=earlier)
    assert "pica[exact]" not in without.controls
    assert "exact values" in without.undefined["igpo[exact]"]
    assert annotated_log("pica[fitted]", 20, log, earlier)[0].trajectories[0].turns[0].values["value.pica"] != 0.5


def test_settings_describe_the_annotation_source() -> None:
    described = settings_of(["pica[fitted]", "mt_ppo[exact]", "igpo[fitted]", "grpo"])
    assert "penalty=0.0" in described["pica[fitted]"]
    assert "earlier rollouts" in described["pica[fitted]"]
    assert "no method has" in described["mt_ppo[exact]"]
    assert "stands for the golden answer" in described["igpo[fitted]"]
    assert "grpo" not in described


@pytest.mark.parametrize(
    ("suite", "names"),
    [
        ("sokoban", "grpo,mt_ppo"),
        pytest.param("alfworld", "grpo,pica", marks=pytest.mark.slow),
        pytest.param("webshop", f"grpo,{','.join(ANNOTATED)}", marks=pytest.mark.slow),
        pytest.param("wikisearch", "grpo,igpo", marks=pytest.mark.slow),
    ],
)
def test_every_annotated_scheme_runs_by_its_bare_name(suite: str, names: str, tmp_path, capsys) -> None:
    command = ["bench", "--preset", "smoke", "--workers", "1", "--seed", "5", "--envs", suite, "--schemes", names]
    assert main([*command, "--out", str(tmp_path)]) == 0
    (found,) = read_results(tmp_path / "results.json")["suites"]
    assert set(found["schemes"]) == {"grpo", *(f"{name}[fitted]" for name in names.split(",")[1:])}
    assert "[fitted]: " in capsys.readouterr().out
