"""Annotators: their values are checked and written with their provenance; an interrupted log is resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow.envs.errors import ConfigError
from creditflow.train.annotate import AnnotationError, Annotations, Provenance, annotate, boundaries, make_annotator
from creditflow.train.annotate.log import annotate_log
from creditflow.train.annotate.registry import ANNOTATORS, entry_of
from creditflow.train.cli import main
from creditflow.wrappers.credit.annotations.values import WRITERS
from creditflow.wrappers.trajectory import Group, read_groups, write_jsonl


class Counter:
    """Writes the number of each turn, and how long the trajectory is."""

    turn_names: tuple[str, ...] = ("value.count", "value.count.next")
    trajectory_names: tuple[str, ...] = ("length",)
    token_names: tuple[str, ...] = ()

    def __init__(self, version: int = 1, fail_at: int = -1) -> None:
        self.provenance = Provenance("counter", version, {"step": 1.0})
        self.fail_at, self.seen = fail_at, 0

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        annotations = []
        for one in groups:
            if self.seen == self.fail_at:
                raise KeyboardInterrupt
            self.seen += 1
            for t in one.trajectories:
                n = len(t.turns)
                annotations.append(Annotations(boundaries("value.count", np.arange(n + 1.0)), {"length": n}))
        return annotations


def pair(name: str = "g") -> Group:
    made = group(walk("s a g"), walk("s a b a g"))
    return Group(tuple(replace(t, group_id=name) for t in made.trajectories), {"question": "?"})


def log_of(path: Path, count: int = 5) -> list[Group]:
    groups = [pair(f"g{i}") for i in range(count)]
    write_jsonl(path, groups)
    return read_groups(path)


def test_every_value_is_written_to_its_turn_with_its_provenance() -> None:
    [done] = annotate([pair()], Counter())
    second = done.trajectories[1]
    assert [turn.values["value.count"] for turn in second.turns] == [0.0, 1.0, 2.0, 3.0]
    assert [turn.values["value.count.next"] for turn in second.turns] == [1.0, 2.0, 3.0, 4.0]
    assert second.values == {"length": 4.0}
    assert set(second.provenance) == {"value.count", "value.count.next", "length"}
    assert Provenance.read(second.provenance["length"]) == Counter().provenance


def test_annotations_survive_the_log(tmp_path: Path) -> None:
    groups = annotate([pair()], Counter())
    write_jsonl(tmp_path / "log.jsonl", groups)
    [back] = read_groups(tmp_path / "log.jsonl")
    assert back.trajectories == groups[0].trajectories


def test_nothing_else_of_a_group_changes() -> None:
    before = pair()
    [after] = annotate([before], Counter())
    assert after.task == before.task
    bare = [
        replace(t, values={}, provenance={}, turns=tuple(replace(u, values={}) for u in t.turns))
        for t in after.trajectories
    ]
    assert bare == list(before.trajectories)


def test_a_second_annotator_keeps_the_values_of_the_first() -> None:
    class Other(Counter):
        turn_names = ("judge.score",)
        trajectory_names = ()

        def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
            return [Annotations({"judge.score": np.zeros(len(t.turns))}) for one in groups for t in one.trajectories]

    [done] = annotate(annotate([pair()], Counter()), Other())
    assert set(done.turns[0].values) == {"value.count", "value.count.next", "judge.score"}
    assert set(done.trajectories[0].provenance) == {"value.count", "value.count.next", "length", "judge.score"}


def test_existing_names_are_an_error_unless_overwriting_is_allowed() -> None:
    once = annotate([pair()], Counter())
    with pytest.raises(AnnotationError, match=r"has 'value\.count' already, written by .*counter.*--overwrite"):
        annotate(once, Counter(2))
    [twice] = annotate(once, Counter(2), overwrite=True)
    assert Provenance.read(twice.trajectories[0].provenance["length"]).version == 2


def test_existing_values_without_provenance_are_not_overwritten_either() -> None:
    known = Group(tuple(replace(t, values={"length": 9.0}) for t in pair().trajectories), pair().task)
    with pytest.raises(AnnotationError, match="has 'length' already, written by an unnamed annotator"):
        annotate([known], Counter())


def returning(change: object) -> Counter:
    class Wrong(Counter):
        def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
            return change(super().annotate(groups))  # type: ignore[operator, no-any-return]  # a lambda below

    return Wrong()


def with_turns(annotations: list[Annotations], name: str, numbers: object) -> list[Annotations]:
    return [Annotations({**annotations[0].turns, name: numbers}, annotations[0].trajectory), *annotations[1:]]  # type: ignore[dict-item]  # wrong


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n: n[:-1], "returned values for 1 trajectories, expected 2"),
        (lambda n: [*n, n[0]], "returned values for 3 trajectories, expected 2"),
        (lambda n: with_turns(n, "value.count", np.array([0.0])), r"expected 2 values 'value\.count'.*shape \(1,\)"),
        (lambda n: with_turns(n, "value.count", np.zeros((2, 1))), r"expected 2 values .*shape \(2, 1\)"),
        (lambda n: with_turns(n, "value.count", np.array([0.0, np.nan])), r"'value\.count' is nan at turns 1"),
        (lambda n: with_turns(n, "value.count", np.array([-np.inf, 0.0])), r"'value\.count' is -inf at turns 0"),
        (lambda n: with_turns(n, "value.cnt", np.zeros(2)), r"expected for its turns .*got .*value\.cnt"),
        (lambda n: [Annotations(n[0].turns), *n[1:]], r"expected for its trajectory \['length'\], got \[\]"),
        (lambda n: [Annotations(n[0].turns, {"length": float("nan")}), *n[1:]], "'length' is nan at trajectory 0"),
    ],
)
def test_values_that_do_not_fit_are_rejected_with_the_reason(change: object, message: str) -> None:
    with pytest.raises(AnnotationError, match=message) as caught:
        annotate([pair()], returning(change))
    assert "returned values" in message or "group 'g', trajectory 's a g'" in str(caught.value)


@pytest.mark.parametrize("interrupted_at", [0, 1, 3, 4])
@pytest.mark.parametrize("torn", [0, 40])
def test_an_interrupted_log_is_resumed_to_the_same_bytes(tmp_path: Path, interrupted_at: int, torn: int) -> None:
    groups = log_of(tmp_path / "in.jsonl")
    annotate_log(groups, Counter(), tmp_path / "whole.jsonl", batch=1)
    out = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt):
        annotate_log(groups, Counter(fail_at=interrupted_at), out, batch=1)
    assert not out.exists()
    partial = tmp_path / "out.jsonl.partial"
    data = partial.read_bytes()
    left = data[: max(0, len(data) - torn)]
    partial.write_bytes(left)
    if left:
        with pytest.raises(ConfigError, match="continue it with --resume"):
            annotate_log(groups, Counter(), out, batch=1)
    second = Counter()
    found = annotate_log(groups, second, out, batch=2, resume=True)
    assert second.seen == len(groups) - found
    assert found == max(0, interrupted_at - bool(torn and data))
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not partial.exists()


def test_a_run_that_was_interrupted_before_its_first_line_is_started_again_without_resume(tmp_path: Path) -> None:
    groups = log_of(tmp_path / "in.jsonl")
    annotate_log(groups, Counter(), tmp_path / "whole.jsonl", batch=1)
    out = tmp_path / "out.jsonl"
    out.with_name("out.jsonl.partial").write_bytes(b"")
    annotate_log(groups, Counter(), out, batch=1)
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_file_of_another_annotator_or_input_is_not_continued(tmp_path: Path) -> None:
    groups = log_of(tmp_path / "in.jsonl")
    out = tmp_path / "out.jsonl"
    with pytest.raises(KeyboardInterrupt):
        annotate_log(groups, Counter(fail_at=2), out, batch=1)
    left = (tmp_path / "out.jsonl.partial").read_bytes()
    other = [replace(one, trajectories=one.trajectories[::-1]) for one in groups]
    for annotator, inputs in ((Counter(2), groups), (Counter(), other), (Counter(), groups[:1])):
        with pytest.raises(AnnotationError, match="delete the file to start over"):
            annotate_log(inputs, annotator, out, resume=True)
        assert (tmp_path / "out.jsonl.partial").read_bytes() == left


def test_a_failing_annotator_leaves_no_output(tmp_path: Path) -> None:
    groups = log_of(tmp_path / "in.jsonl", 1)
    with pytest.raises(AnnotationError):
        annotate_log(groups, returning(lambda n: n[:-1]), tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("spec", ["orcale", "oracle:x"])
def test_a_wrong_annotator_is_named(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'oracle'|takes no argument"):
        make_annotator(spec)


def test_the_registry_names_the_values_that_annotators_write() -> None:
    for entry in ANNOTATORS.values():
        module = import_module(f"creditflow.train.annotate.{entry.module}")
        declared = [
            {name.removesuffix(".next") for name in (*kind.turn_names, *getattr(kind, "trajectory_names", ()))}
            for kind in vars(module).values()
            if isinstance(kind, type) and kind.__module__ == module.__name__ and hasattr(kind, "turn_names")
        ]
        assert declared, entry
        assert all(names == set(entry.values) for names in declared), entry
    written = {name for entry in ANNOTATORS.values() for name in entry.values}
    assert WRITERS.keys() <= written
    for value, writer in WRITERS.items():
        assert value in entry_of(writer.partition(" ")[0])[0].values


def test_the_oracle_writes_the_values_that_the_recorder_writes(tmp_path: Path) -> None:
    common = ["rollout", "--agent", "noisy:0.4", "--panel", "small-v1:valid", "--limit", "3", "--group-size", "2"]
    assert main([*common, "--out", str(tmp_path / "bare.jsonl")]) == 0
    assert main([*common, "--oracle", "--out", str(tmp_path / "known.jsonl")]) == 0
    command = ["annotate", "--with", "oracle", "--env", "sokoban", "--panel", "small-v1:valid"]
    assert main([*command, str(tmp_path / "bare.jsonl"), "--out", str(tmp_path / "out.jsonl")]) == 0
    ours, theirs = read_groups(tmp_path / "out.jsonl"), read_groups(tmp_path / "known.jsonl")
    assert [t.turns for g in ours for t in g.trajectories] == [t.turns for g in theirs for t in g.trajectories]
    provenance = json.loads(ours[0].trajectories[0].provenance["value.oracle"])
    assert provenance == {
        "annotator": "oracle",
        "version": 1,
        "model": "",
        "parameters": {"env": "sokoban", "exact": True},
    }


def test_a_log_of_another_environment_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_of(tmp_path / "in.jsonl", 1)
    command = ["annotate", "--with", "oracle", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl")]
    assert main(command) == 2
    assert "name the environment" in capsys.readouterr().err
    assert main([*command, "--env", "sokoban"]) in (2, 3)
    assert not (tmp_path / "out.jsonl").exists()


def test_input_and_output_may_not_be_one_file(tmp_path: Path) -> None:
    log_of(tmp_path / "in.jsonl", 1)
    same = str(tmp_path / "in.jsonl")
    assert main(["annotate", "--with", "oracle", "--env", "sokoban", same, "--out", same]) == 2
