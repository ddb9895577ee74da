"""Names of methods carry values of parameters, annotation sources and corruptions, and results show them."""

from __future__ import annotations

from typing import get_args, get_origin, get_type_hints

import pytest
from helpers.smoke_bench import smoke_bench
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.document import read_results
from creditflow.train.bench.methods import (
    can_be_annotated,
    canonical_name,
    scheme_entry,
    settings_of,
    with_annotation_sources,
)
from creditflow.train.bench.names import MethodName, typed_value, value_text
from creditflow.train.bench.report.tables import suite_tables
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup


def test_a_variant_is_the_scheme_with_that_value_and_keeps_the_benchmarks_settings():
    name = "pica{discount=0.7}"
    expected = credit.make("pica", penalty=0.0, baseline="group", discount=0.7)
    assert scheme_entry(name).scheme_for(10, "text") == expected
    assert "discount=0.7" in settings_of([name])[name]


def test_a_variant_that_reads_annotations_gets_a_source():
    assert can_be_annotated("pica{penalty=0.5}")
    (name,) = with_annotation_sources(["pica{penalty=0.5}"])
    assert name == "pica{penalty=0.5}[fitted]"
    assert scheme_entry(name).parameters["penalty"] == 0.5
    assert scheme_entry(name).annotation_source == "fitted"


def test_values_get_one_form():
    assert canonical_name("grpo") == "grpo"
    assert canonical_name("graphgpo{distance_discount=.30}") == "graphgpo{distance_discount=0.3}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("graphgpo{distance_discont=.1}", "parameter of graphgpo 'distance_discont'; did you mean 'distance_discount'"),
        ("grpo{distance_discount=.1}", "unknown parameter of grpo 'distance_discount'"),
        ("graphgpo{distance_discount=x}", "graphgpo.distance_discount must be a number, got 'x'"),
        ("graphgpo{distance_discount=nan}", "graphgpo.distance_discount must be a finite number"),
        ("graphgpo{distance_discount=1.5}", r"graphgpo.distance_discount must lie in"),
        ("rewardflow{step_scale=sdt}", "value of rewardflow.step_scale 'sdt'; did you mean 'std'"),
        ("gigpo{key=text}", "gigpo.key cannot be given: the suite decides"),
        ("hgpo{history_length=1.5}", "hgpo.history_length must be an integer"),
        ("egrpo{aliases=yes}", "unknown value of egrpo.aliases 'yes'"),
        ("graphgpo{distance_discount=}", "each parameter once"),
        ("graphgpo{distance_discount=.1", "each parameter once"),
        ("graphgpo{distance_discount=.1;distance_discount=.2}", "each parameter once"),
        ("graphgpo{}", "unknown credit scheme|each parameter once"),
        ("graphpo{distance_discount=.1}", "did you mean 'graphgpo'"),
    ],
)
def test_a_wrong_name_is_explained(name, message):
    with pytest.raises(ConfigError, match=message):
        canonical_name(name)


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
    """A scheme with two values on an exact suite."""
    out = tmp_path_factory.mktemp("values")
    names = "grpo,graphgpo{distance_discount=.1},graphgpo{distance_discount=.8}"
    assert smoke_bench(names, "--out", str(out)) == 0
    return out


def test_tables_and_results_carry_the_values(folder):
    document = read_results(folder / "results.json")
    (suite,) = document["suites"]
    low, high = "graphgpo{distance_discount=0.1}", "graphgpo{distance_discount=0.8}"
    assert suite["schemes"] == ["grpo", low, high]
    assert {low, high} < suite["studies"][0]["endpoints"]["gain"].keys()
    assert suite["settings"] == {high: "graphgpo with distance_discount=0.8"}  # .1 is the paper's
    for table in suite_tables(suite):
        assert {low, high} < {row[0] for row in table.rows}


def test_a_variant_has_the_numbers_of_the_scheme_with_that_value(folder, tmp_path):
    assert smoke_bench("graphgpo{distance_discount=0.1},graphgpo", "--out", str(tmp_path)) == 0
    one, other = (read_results(place / "results.json")["suites"][0] for place in (folder, tmp_path))
    for mine, theirs in zip(one["studies"], other["studies"], strict=True):
        low = "graphgpo{distance_discount=0.1}"
        assert mine["endpoints"]["gain"][low] == theirs["endpoints"]["gain"][low]
    for mine, theirs in zip(one["curves"], other["curves"], strict=True):
        assert mine["graphgpo{distance_discount=0.8}"] == theirs["graphgpo"]


def test_a_finished_run_is_resumed_with_the_same_values_only(folder, capsys):
    before = (folder / "results.json").read_bytes()
    words = ["--resume", "--out", str(folder)]
    other_texts = "grpo,graphgpo{distance_discount=0.10},graphgpo{distance_discount=0.80}"
    assert smoke_bench(other_texts, *words) == 0
    assert (folder / "results.json").read_bytes() == before
    capsys.readouterr()
    assert smoke_bench(other_texts.replace("0.80", "0.7"), *words) == 3
    assert "methods" in capsys.readouterr().err
