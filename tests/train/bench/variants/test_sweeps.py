"""``--sweep``: names carry values, a grid replaces the schemes that have the parameter, and results show it."""

from __future__ import annotations

from math import prod
from typing import get_args, get_origin, get_type_hints

import pytest
from helpers.smoke_bench import smoke_bench
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.document import read_results
from creditflow.train.bench.methods import can_be_annotated, scheme_entry, settings_of, with_annotation_sources
from creditflow.train.bench.names import MethodName, typed_value, value_text
from creditflow.train.bench.report.tables import suite_tables
from creditflow.train.bench.sweeps import canonical_name, parse_sweeps, swept_names
from creditflow.train.cli import main
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup


def swept(schemes: list[str], *texts: str) -> list[str]:
    return swept_names(schemes, parse_sweeps(texts))


def test_a_scheme_with_the_parameter_becomes_its_variants_in_order_and_others_stay():
    assert swept(["grpo", "graphgpo"], "distance_discount=.5,.1") == [
        "grpo",
        "graphgpo{distance_discount=0.5}",
        "graphgpo{distance_discount=0.1}",
    ]


def test_several_sweeps_are_a_grid_over_the_parameters_that_a_scheme_has():
    names = swept(["gdcr", "sapo", "grpo"], "step_weight=0.5,1", "gdcr.step_clip=1,2")
    assert names == [
        "gdcr{step_weight=0.5;step_clip=1}",
        "gdcr{step_weight=0.5;step_clip=2}",
        "gdcr{step_weight=1;step_clip=1}",
        "gdcr{step_weight=1;step_clip=2}",
        "sapo{step_weight=0.5}",
        "sapo{step_weight=1}",
        "grpo",
    ]


def test_a_variant_is_the_scheme_with_that_value_and_keeps_the_benchmarks_settings():
    name = "pica{discount=0.7}"
    expected = credit.make("pica", penalty=0.0, baseline="group", discount=0.7)
    assert scheme_entry(name).scheme_for(10, "text") == expected
    assert "discount=0.7" in settings_of([name])[name]


def test_a_variant_that_reads_annotations_gets_a_source():
    assert can_be_annotated("pica{penalty=0.5}")
    (name,) = with_annotation_sources(swept(["pica"], "penalty=0.5"))
    assert name == "pica{penalty=0.5}[fitted]"
    assert scheme_entry(name).parameters["penalty"] == 0.5
    assert scheme_entry(name).annotation_source == "fitted"


def test_without_a_sweep_the_names_stay_and_values_get_one_form():
    assert swept(["grpo", "graphgpo{distance_discount=.30}"]) == ["grpo", "graphgpo{distance_discount=0.3}"]
    assert swept([]) == []


@pytest.mark.parametrize(
    ("schemes", "texts", "message"),
    [
        ([], ["discount=.1"], "list the schemes to vary"),
        (["grpo"], ["discount"], r"expected \[SCHEME.\]PARAMETER=VALUE"),
        (["grpo"], ["=1"], r"expected \[SCHEME.\]PARAMETER=VALUE"),
        (["gigpo"], ["discount=.1,"], r"expected \[SCHEME.\]PARAMETER=VALUE"),
        (["grpo", "graphgpo"], ["distance_discont=.1"], "parameter of grpo, graphgpo 'distance_discont'; did you mean 'distance_discount'"),
        (["graphgpo"], ["graphpgo.distance_discount=.1"], "'graphpgo'; did you mean 'graphgpo'"),
        (["grpo", "graphgpo"], ["grpo.distance_discount=.1"], "unknown parameter of grpo 'distance_discount'"),
        (["graphgpo"], ["distance_discount=x"], "graphgpo.distance_discount must be a number, got 'x'"),
        (["graphgpo"], ["distance_discount=nan"], "graphgpo.distance_discount must be a finite number"),
        (["graphgpo"], ["distance_discount=1.5"], r"graphgpo.distance_discount must lie in"),
        (["graphgpo"], ["distance_discount=.1,0.10"], "a value is given twice"),
        (["graphgpo"], ["distance_discount=.1", "graphgpo.distance_discount=.2"], "varied twice"),
        (["graphgpo"], ["graphgpo.distance_discount=.1", "distance_discount=.2"], "varied twice"),
        (["graphgpo{distance_discount=.1}"], ["distance_discount=.2"], "has a value of distance_discount already"),
        (["rewardflow"], ["step_scale=sdt"], "value of rewardflow.step_scale 'sdt'; did you mean 'std'"),
        (["gigpo"], ["key=text"], "gigpo.key cannot be given: the suite decides"),
        (["hgpo"], ["history_length=1.5"], "hgpo.history_length must be an integer"),
        (["egrpo"], ["aliases=yes"], "unknown value of egrpo.aliases 'yes'"),
        (["graphgpo"], ["distance_discount=" + ",".join(f".{i:04}" for i in range(1, 102))], "has 101 variants; the limit is 100"),
        (
            ["rewardflow"],
            [f"{name}=" + ",".join(f".{i:05}" for i in range(1, 61)) for name in ("discount", "action_weight", "trajectory_weight")],
            "has 216000 variants; the limit is 100",
        ),
        (["graphgpo{distance_discount=}"], [], "each parameter once"),
        (["graphgpo{distance_discount=.1"], [], "each parameter once"),
        (["graphgpo{distance_discount=.1;distance_discount=.2}"], [], "each parameter once"),
        (["graphgpo{}"], [], "each parameter once"),
        (["graphpo{distance_discount=.1}"], [], "did you mean 'graphgpo'"),
    ],
)  # fmt: skip
def test_a_wrong_sweep_is_explained(schemes, texts, message):
    with pytest.raises(ConfigError, match=message):
        swept(schemes, *texts)


@given(st.data())
def test_every_value_of_every_parameter_has_one_text_that_reads_back(data):
    kind = lookup(data.draw(st.sampled_from(credit.names())))
    hints = get_type_hints(kind)
    name = data.draw(st.sampled_from([name for name in kind.preset("paper") if name != "key"]))
    hint = hints[name]
    values = {
        float: st.floats(allow_nan=False, allow_infinity=False),
        int: st.integers(),
        bool: st.booleans(),
        str: st.text("abc", min_size=1),
    }
    value = data.draw(st.sampled_from(get_args(hint)) if get_origin(hint) is not None else values[hint])
    back = typed_value(kind, name, value_text(value))
    assert back == value
    assert type(back) is type(value)
    assert value_text(back) == value_text(value)


@given(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=5, unique=True),
    st.lists(st.floats(0.1, 5.0), max_size=4, unique=True),
)
def test_the_grid_has_every_combination_once_and_its_names_say_which(discounts, weights):
    texts = [
        f"{name}={','.join(map(repr, of))}" for name, of in (("discount", discounts), ("action_weight", weights)) if of
    ]
    names = swept(["rewardflow"], *texts)
    assert len(set(names)) == len(names) == prod(len(of) for of in (discounts, weights) if of)
    assert [canonical_name(name) for name in names] == names
    made = [scheme_entry(name).scheme_for(5, "state") for name in names]
    assert [vars(scheme)["discount"] for scheme in made] == [d for d in discounts for _ in (weights or [1.0])]
    assert [vars(scheme)["action_weight"] for scheme in made] == [w for _ in discounts for w in (weights or [1.0])]
    assert all(str(MethodName.parse(name)) == name for name in names)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("grpo", ("grpo", {}, "", ())),
        ("graphgpo{a=1;b=x}", ("graphgpo", {"a": "1", "b": "x"}, "", ())),
        ("pica{discount=0.9}[exact]", ("pica", {"discount": "0.9"}, "exact", ())),
        ("shuffled(flipped(igpo[exact]))", ("igpo", {}, "exact", ("shuffled", "flipped"))),
    ],
)
def test_one_parser_reads_every_name_of_a_method(name, parts):
    parsed = MethodName.parse(name)
    assert (parsed.scheme, parsed.values, parsed.source, parsed.corruptions) == parts
    assert str(parsed) == name


@pytest.mark.parametrize(
    "name", ["pica[fitted", "pica[]", "graphgpo{a", "graphgpo{a=}", "graphgpo{a=1;a=2}", "shuffled(pica[x)"]
)
def test_a_name_whose_brackets_are_wrong_is_rejected(name):
    with pytest.raises(ConfigError, match="expected NAME"):
        MethodName.parse(name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small sweep on an exact suite."""
    out = tmp_path_factory.mktemp("sweep")
    assert smoke_bench("grpo,graphgpo", "--sweep", "distance_discount=.1,.8", "--out", str(out)) == 0
    return out


def test_tables_and_results_carry_the_values(folder):
    document = read_results(folder / "results.json")
    (suite,) = document["suites"]
    low, high = "graphgpo{distance_discount=0.1}", "graphgpo{distance_discount=0.8}"
    assert suite["schemes"] == ["grpo", low, high]
    assert {low, high} < suite["cells"][0]["offline"].keys()
    assert suite["settings"] == {high: "graphgpo with distance_discount=0.8"}  # .1 is the paper's
    for table in suite_tables(suite):
        assert {low, high} < {row[0] for row in table.rows}


def test_a_swept_variant_has_the_numbers_of_the_scheme_with_that_value(folder, tmp_path):
    assert smoke_bench("graphgpo{distance_discount=0.1},graphgpo", "--out", str(tmp_path)) == 0
    cells = read_results(tmp_path / "results.json")["suites"][0]["cells"]
    for one, other in zip(read_results(folder / "results.json")["suites"][0]["cells"], cells, strict=True):
        assert one["offline"]["graphgpo{distance_discount=0.1}"] == other["offline"]["graphgpo{distance_discount=0.1}"]
        assert one["curves"]["graphgpo{distance_discount=0.8}"] == other["curves"]["graphgpo"]


def test_a_finished_sweep_is_resumed_with_the_same_values_only(folder, capsys):
    before = (folder / "results.json").read_bytes()
    words = ["--resume", "--out", str(folder), "--sweep"]
    assert smoke_bench("grpo,graphgpo", *words, "distance_discount=0.10,0.80") == 0  # other texts, the same values
    assert (folder / "results.json").read_bytes() == before
    capsys.readouterr()
    assert smoke_bench("grpo,graphgpo", *words, "distance_discount=.1,.7") == 3
    assert "methods" in capsys.readouterr().err


def test_a_sweep_without_effect_is_refused(capsys):
    for option in (["--sweep", "discount=.1"], ["--schemes", "gigpo"], ["--envs", "sokoban"], ["--resume"]):
        assert main(["bench", *option, "--show", "x.json"]) == 2
    assert "--sweep" in capsys.readouterr().err
