"""What feeds schemes that read annotations: fitted from other rollouts, or exact; never from the rollouts they score."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import LOGITS, chain, policy

from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import ConfigError
from creditflow.train.bench.columns import fed_columns, feedable, plain_name, scheme_column, scheme_columns, settings_of
from creditflow.train.bench.controls import Judge
from creditflow.train.bench.exact.curves import learn_exactly
from creditflow.train.bench.exact.gridworlds import grid_tasks
from creditflow.train.bench.exact.offline import measure
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.feeds import feed_log, open_feed
from creditflow.train.bench.lineup import line_up
from creditflow.train.bench.run import read_results
from creditflow.train.cli import main
from creditflow.train.rollout import play_group
from creditflow.wrappers import credit
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group

FED = ("igpo", "mt_ppo", "pica", "ppo_gae", "prm", "tips")
every = pytest.mark.parametrize("name", FED)


def played(size: int, seed: int = 0, slip: float = 0.0):
    return simulate(chain(slip=slip), policy()[None], size, np.random.default_rng(seed))[0]


def advantages(name: str, group: Group) -> np.ndarray:
    return scheme_column(name).made(3, "state").assign(group).flat_advantages


def test_the_schemes_that_are_fed_are_those_that_read_annotations_and_nothing_else() -> None:
    needy = {name for name in credit.names() if credit.make(name).needs}
    assert needy == set(FED) == {name for name in credit.names() if feedable(name)}


@every
def test_a_scheme_scores_what_it_is_fed(name: str) -> None:
    judge = Judge(chain(), policy())
    for column in (f"{name}[fitted]", f"{name}[exact]"):
        feed = open_feed(column, 3, "state")
        feed.learn(played(64, 1))
        assert np.isfinite(advantages(column, feed.fed(played(8), judge))).all()


@every
def test_groups_of_arrays_and_written_groups_are_fed_alike(name: str) -> None:
    found = []
    for write in (False, True):
        groups = [played(size, seed) for size, seed in ((32, 1), (8, 0))]
        if write:
            groups = [Group(group.trajectories) for group in groups]
        feed = open_feed(f"{name}[fitted]", 3, "state")
        feed.learn(groups[0])
        found.append(advantages(name, feed.fed(groups[1])))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)


def test_what_is_fed_never_depends_on_the_group_that_is_scored() -> None:
    feed = open_feed("pica[fitted]", 3, "state")
    feed.learn(played(32, 1))
    group = played(8)
    lost = group.annotated({})
    lost.__dict__["arrays"] = replace(group.arrays, success=~group.arrays.success)
    # of a finished episode it is seen how it ended: of all other places nothing is known
    for name in ("value.pica", "value.critic", "logp.answer"):
        np.testing.assert_array_equal(feed.fed(group).annotation(name), feed.fed(lost).annotation(name))


def test_before_anything_is_seen_nothing_is_known() -> None:
    group = open_feed("pica[fitted]", 3, "state").fed(played(8))
    assert set(group.annotation("value.pica")) == {0.5}
    assert set(group.annotation("value.pica.next")) == {0.5}
    critic = open_feed("mt_ppo[fitted]", 3, "state").fed(played(8))
    assert set(critic.annotation("value.critic")) == {0.0}


def test_fitted_numbers_come_near_the_exact_ones_with_many_rollouts() -> None:
    judge = Judge(chain(horizon=40), policy())  # so long that the turns left do not matter
    many, one = (simulate(judge.mdp, policy()[None], n, np.random.default_rng(n))[0] for n in (4000, 8))
    feed = open_feed("mt_ppo[fitted]", 40, "state")
    feed.learn(many)
    for name in ("value.pica", "value.critic"):
        fitted = feed.fed(one).annotation(name)
        exact = open_feed("mt_ppo[exact]", 40, "state").fed(one, judge).annotation(name)
        early = one.left > 30
        np.testing.assert_allclose(fitted[early], exact[early], atol=0.03)


def test_older_rollouts_fade() -> None:
    feed = open_feed("pica[fitted]", 3, "state")
    group = played(16)
    won = group.annotated({})
    won.__dict__["arrays"] = replace(group.arrays, success=np.ones(16, np.bool_))
    lost = group.annotated({})
    lost.__dict__["arrays"] = replace(group.arrays, success=np.zeros(16, np.bool_))
    feed.learn(won)
    high = feed.fed(group).annotation("value.pica")[0]
    feed.learn(lost)
    assert high > 0.9 > 0.5 > feed.fed(group).annotation("value.pica")[0]


def test_one_token_a_turn_makes_ppo_gae_mt_ppo() -> None:
    for kind in ("fitted", "exact"):
        found = []
        for name in ("ppo_gae", "mt_ppo"):
            feed = open_feed(f"{name}[{kind}]", 3, "state")
            feed.learn(played(32, 1))
            found.append(advantages(name, feed.fed(played(8), Judge(chain(), policy()))))
        np.testing.assert_allclose(found[0], found[1], atol=1e-5)  # a critic's words about tokens are float32


def test_exact_one_step_errors_are_the_exact_advantage() -> None:
    judge, group = Judge(chain(), policy()), played(8)
    at = judge.locate(group)
    fed = open_feed("mt_ppo[exact]", 3, "state").fed(group, judge)
    got = credit.make("mt_ppo", gae_lambda=0.0, whitening=False).assign(fed).flat_advantages
    np.testing.assert_allclose(got, judge.advantage[at.left, at.state, at.action], atol=1e-12)
    np.testing.assert_allclose(fed.annotation("judge.score"), got, atol=1e-12)


@pytest.mark.parametrize("slip", [0.0, 0.25])
def test_an_exact_critic_of_shaped_returns_expects_what_is_paid(slip: float) -> None:
    judge = Judge(chain(slip=slip), policy())
    group = simulate(judge.mdp, policy()[None], 40_000, np.random.default_rng(3))[0]
    scheme = credit.make("tips", whitening=False)
    given = scheme.assign(open_feed("tips[exact]", 3, "state").fed(group, judge)).flat_advantages
    first = group.left == 3
    assert abs(given[first].mean()) < 4.0 * given[first].std() / np.sqrt(first.sum())


def test_fed_columns_change_no_draw_of_the_others() -> None:
    names = ["gigpo", "mt_ppo[fitted]", "oracle_adv"]
    measured = [
        asdict(measure(chain(), LOGITS, own, np.random.default_rng(0), size=4, groups=6).columns["gigpo"])
        for own in (["gigpo", "oracle_adv"], names)
    ]
    assert measured[0] == pytest.approx(measured[1], rel=1e-6, nan_ok=True)  # steps of one KL are searched for together
    curves = [
        learn_exactly(chain(), LOGITS, own, np.random.default_rng(0), size=4, updates=4, kl=0.01).curves["gigpo"]
        for own in (["gigpo"], names)
    ]
    assert curves[0].points == pytest.approx(curves[1].points, rel=1e-6)


def test_names_are_fed_by_what_can_be_learned() -> None:
    assert fed_columns(["grpo", "pica", "mt_ppo[exact]", "pica[fitted]"]) == ("grpo", "pica[fitted]", "mt_ppo[exact]")
    assert plain_name("flipped(shuffled(tips[fitted]))") == "tips[fitted]"
    with pytest.raises(ConfigError, match=r"did you mean 'pica\[fitted\]'"):
        scheme_column("pica[fited]")
    with pytest.raises(ConfigError, match="reads no annotations"):
        scheme_column("grpo[exact]")
    with pytest.raises(ConfigError, match="exact values"):
        open_feed("pica[exact]", 3, "state").fed(played(8))


def test_a_full_run_feeds_them_all_and_a_quick_one_says_how_to() -> None:
    assert {f"{name}[fitted]" for name in FED} - {"ppo_gae[fitted]"} <= set(scheme_columns(True))
    assert set(FED) <= set(scheme_columns(False))
    env, source = GroupEnv("grid-pits", size=8), grid_tasks("pits", 0, 2)
    log, earlier = (
        [play_group(env, TabularAgent(optimal_prob=0.6), source.get(i), iteration=n) for i in source.task_ids()]
        for n in (0, 1)
    )
    assert "--schemes pica" in line_up(["grpo", "pica"], log, horizon=20, exact=True).undefined["pica"]
    found = line_up(["grpo", "pica[fitted]"], log, horizon=20, exact=True, earlier=earlier)
    assert found.schemes == ("grpo", "pica[fitted]")
    assert {"pica[exact]", "shuffled(pica[fitted])"} <= set(found.controls)
    without = line_up(["pica[fitted]", "tips[exact]"], log, horizon=20, exact=False, earlier=earlier)
    assert "pica[exact]" not in without.controls
    assert "exact values" in without.undefined["tips[exact]"]
    assert feed_log("pica[fitted]", 20, log, earlier)[0].trajectories[0].turns[0].values["value.pica"] != 0.5


def test_the_tables_say_what_fed_a_scheme() -> None:
    told = settings_of(["pica[fitted]", "mt_ppo[exact]", "igpo[fitted]", "grpo"])
    assert "penalty=0.0" in told["pica[fitted]"]
    assert "earlier rollouts" in told["pica[fitted]"]
    assert "no method has" in told["mt_ppo[exact]"]
    assert "stands for the right answer" in told["igpo[fitted]"]
    assert "grpo" not in told


@pytest.mark.parametrize(
    ("suite", "names"),
    [
        ("sokoban", "grpo,mt_ppo"),
        ("alfworld", "grpo,pica"),
        ("webshop", f"grpo,{','.join(FED)}"),
        ("wikisearch", "grpo,tips,igpo"),
    ],
)
def test_every_fed_scheme_runs_by_its_name(suite: str, names: str, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib", reason="plots need the 'bench' extra")
    command = ["bench", "--preset", "smoke", "--workers", "1", "--seed", "5", "--envs", suite, "--schemes", names]
    assert main([*command, "--out", str(tmp_path)]) == 0
    (found,) = read_results(tmp_path / "results.json")["suites"]
    assert set(found["schemes"]) == {"grpo", *(f"{name}[fitted]" for name in names.split(",")[1:])}
    assert "[fitted]: " in capsys.readouterr().out
