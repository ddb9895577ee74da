"""A credit set and rollouts with exact values as one dataset folder, in the layout that the Hugging Face Hub reads.

The folder has two configurations, ``credit_set`` and ``rollouts``, with a gzipped file of JSON Lines for each split, a card
(``README.md``), a licence and ``manifest.json`` with the SHA-256 of every file. Nothing is uploaded. The same credit set and
settings give the same bytes.

The policy that acts in the rollouts is also the policy that defines their values, so the values are on-policy. They are computed
by dynamic programming over all states and turns left, by the same tables as the exact values of a credit set.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import IO, Any, Final

import numpy as np

from creditflow import __version__
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.errors import ConfigError, DataError, OracleLimitError, short_repr
from creditflow.envs.files.atomic import atomic_writer, write_json
from creditflow.envs.reading.json_text import read_json, read_json_lines
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.tasks import load_panel
from creditflow.train.annotate.base import Provenance
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.policies import noisy_expert
from creditflow.train.bench.exact.sokoban_mdp import sokoban_mdp
from creditflow.train.bench.exact.values import evaluate
from creditflow.train.credit_set.reading import MAX_RECORD, read_credit_set, read_header
from creditflow.train.credit_set.settings import EXACT_ENV, PANEL, SETTINGS, RolloutSettings
from creditflow.train.progress import progress
from creditflow.train.rollout.play import play_group
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import encode_line
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["ANNOTATIONS", "FEATURES", "MANIFEST", "SPLITS", "exact_rollouts", "verify_dataset", "write_dataset"]

MANIFEST: Final = "manifest.json"
FORMAT: Final = "creditflow-dataset"
FORMAT_VERSION: Final = 1
SPLITS: Final = {"train": "train", "valid": "validation", "test": "test"}  # of a panel -> of the Hub
CREDIT_SET: Final = "credit_set"
ROLLOUTS: Final = "rollouts"
ANNOTATIONS: Final = ("value.exact", "value.exact.next", "q.exact", "advantage.exact")  # of a turn of a rollout
DIGITS: Final = 9  # decimal places of these values


def _typed(dtype: str, *names: str) -> list[dict[str, Any]]:
    return [{"name": name, "dtype": dtype} for name in names]


def _valued(letter: str) -> list[dict[str, Any]]:
    """The features of Q ("q") or V ("v")."""
    pairs = [{"name": f"{letter}_{name}", "list": "float64"} for name in ("interval", "halves")]
    return [*_typed("float64", letter, f"{letter}_error"), *pairs, *_typed("float64", f"{letter}_score")]


# the types of all fields, in the Hub's notation
FEATURES: Final[Mapping[str, list[dict[str, Any]]]] = {
    CREDIT_SET: [
        *_typed("string", "turn_id", "env", "task_id", "split", "policy"), *_typed("int64", "turn", "turns_left"),
        *_typed("string", "continuation", "kind"), *_typed("int64", "forks"), *_typed("string", "prompt", "action"), *_valued("q"),
        *_typed("float64", "distance_after"), *_typed("string", "response"), *_typed("bool", "valid"), *_typed("int64", "admissible"),
        *_valued("v"), *_typed("float64", "advantage", "advantage_error", "distance"),
        {"name": "alternatives", "list": [*_typed("string", "action"), *_valued("q"), *_typed("float64", "distance_after")]},
    ],
    ROLLOUTS: [
        *_typed("int64", "format_version"), *_typed("string", "trajectory_id", "group_id", "task_id"), *_typed("int64", "replica"),
        *_typed("bool", "success"), *_typed("float64", "score"),
        *_typed("string", "stop_reason", "final_state_key", "final_text_key", "policy"),
        {"name": "provenance", "struct": _typed("string", *ANNOTATIONS)}, {"name": "task", "struct": _typed("string", "xsb")},
        {"name": "turns", "list": [
            *_typed("string", "state_key", "action", "next_state_key"), *_typed("bool", "effective"), *_typed("float64", "reward"),
            *_typed("string", "observation", "text_key"), {"name": "values", "struct": _typed("float64", *ANNOTATIONS)},
        ]},
    ],
}  # fmt: skip


def write_dataset(
    folder: Path, credit_set: Path, settings: RolloutSettings, *, name: str, command: str
) -> dict[str, int]:
    """Write a dataset into an existing folder; returns the number of rows by file.

    Args:
        folder: an empty folder.
        credit_set: a finished credit set.
        settings: settings of the rollouts.
        name: name of the folder, for the card.
        command: the command that wrote it, for the card.

    Raises:
        DataError: not a credit set, or one whose records have other fields.
    """
    turns = list(read_credit_set(credit_set))
    if not turns:
        raise DataError(f"{credit_set}: the credit set has no turns")
    rows = _write_splits(folder, CREDIT_SET, _credit_rows(credit_set))
    groups = progress(exact_rollouts(settings), "groups", settings.groups)
    rows |= _write_splits(folder, ROLLOUTS, ((split, row) for split, group in groups for row in _rollout_rows(group)))
    header = read_header(credit_set)
    facts = {
        "name": name, "command": command, "version": __version__, "panel": PANEL.partition(":")[0],
        "settings": json.dumps(header, indent=1), "source": f"The credit set has the SHA-256 `{_sha256(credit_set)}`.",
        "envs": ", ".join(dict.fromkeys(turn.env for turn in turns)),
        "kinds": _kinds(Counter("exact" if turn.forks == 0 else "forked" for turn in turns)),
        "outputs": (
            " The actions of language models among the policies may have further conditions, which are those of the models."
            if header.get("agents") else ""
        ),
    }  # fmt: skip
    (folder / "README.md").write_text(_card(rows, settings, facts), encoding="utf-8")
    (folder / "LICENSE").write_text(_template("dataset_license").template, encoding="utf-8")
    entries = {
        path: {"sha256": _sha256(folder / path), "bytes": (folder / path).stat().st_size}
        | ({"rows": rows[path]} if path in rows else {})
        for path in ("LICENSE", "README.md", *rows)
    }
    write_json(
        folder / MANIFEST,
        {"format": FORMAT, "version": FORMAT_VERSION, "creditflow": __version__, "command": command, "files": entries},
    )  # fmt: skip
    return rows


def verify_dataset(folder: str | Path) -> dict[str, Any]:
    """Compare every file of a dataset folder with its digest; returns the entries of the manifest by file.

    Raises:
        DataError: no manifest, or a file is missing or damaged.
    """
    path = Path(folder)
    manifest = read_json(path / MANIFEST)
    entries = manifest.get("files") if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None
    if not isinstance(entries, dict) or manifest.get("version") != FORMAT_VERSION:
        raise DataError(f"{path / MANIFEST}: not the manifest of a dataset of version {FORMAT_VERSION}")
    for name, entry in entries.items():
        file = path / name
        if ".." in Path(name).parts or Path(name).is_absolute() or file.is_symlink() or not file.is_file():
            raise DataError(f"{path}: the file {short_repr(name)} of the manifest is missing; get the dataset again")
        if not isinstance(entry, dict) or entry.get("sha256") != _sha256(file):
            raise DataError(f"{file}: its SHA-256 is not that of the manifest; get the dataset again")
    return entries


def _write_splits(folder: Path, config: str, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, int]:
    """Write rows to a file for each split that has any; returns the number of rows by file."""
    counts = Counter[str]()
    with ExitStack() as stack:
        streams: dict[str, IO[str]] = {}
        for split, row in rows:
            file = f"{config}/{SPLITS[split]}.jsonl.gz"
            if file not in streams:
                streams[file] = stack.enter_context(atomic_writer(folder / file))
            streams[file].write(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n")
            counts[file] += 1
    return {file: counts[file] for split in SPLITS.values() if counts[file := f"{config}/{split}.jsonl.gz"]}


def _credit_rows(path: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The records of a credit set that was read before, with their splits."""
    names = {feature["name"] for feature in FEATURES[CREDIT_SET]}
    lines = read_json_lines(path, longest=MAX_RECORD)
    next(lines)  # the settings
    for where, record in lines:
        if record.keys() != names:
            other = ", ".join(sorted(record.keys() ^ names))
            raise DataError(
                f"{where}: expected the fields of a record that creditflow wrote, got a difference in {other}"
            )
        if not isinstance(record["split"], str) or record["split"] not in SPLITS:
            raise DataError(f"{where}: split must be one of {', '.join(SPLITS)}, got {short_repr(record['split'])}")
        yield record["split"], record


def _rollout_rows(group: Group) -> Iterable[Mapping[str, Any]]:
    """The lines of a group in a log, with the fields that a log leaves out at their defaults."""
    for number, member in enumerate(group.trajectories):
        line = json.loads(encode_line(member, group.task if number == 0 else None))
        turns = [{"effective": True, "reward": 0.0, **turn} for turn in line["turns"]]
        yield {"replica": 0, **line, "turns": turns}


def exact_rollouts(settings: RolloutSettings) -> Iterator[tuple[str, Group]]:
    """Play the groups; yields the split of each task and its group, whose turns have the annotations ``ANNOTATIONS``.

    Raises:
        ConfigError: fewer tasks have states that fit a table.
    """
    of_env = SETTINGS[EXACT_ENV]
    env = GroupEnv(
        EXACT_ENV, size=settings.group_size, panel=PANEL, max_steps=of_env.max_steps, policy=of_env.continuation
    )
    tasks = env.members[0].base.tasks
    rows = load_panel(EXACT_ENV, PANEL.partition(":")[0]).rows
    order = np.random.default_rng([settings.seed, len(rows)]).permutation(len(rows)).tolist()
    written = 0
    for row in (rows[i] for i in order):
        task = tasks.get(row.task_id)
        try:
            mdp = sokoban_mdp(parse_level(str(task.content["xsb"])), of_env.max_steps)
        except OracleLimitError:  # the next task takes its place
            continue
        group = play_group(env, NoisyExpert(of_env.noise), task, seed=settings.seed)
        yield row.split, _with_exact_values(group, mdp, of_env.noise)
        written += 1
        if written == settings.groups:
            return
    raise ConfigError(f"only {written} tasks of the panel have states that fit a table, got {settings.groups} groups")


def _with_exact_values(group: Group, mdp: FiniteMDP, noise: float) -> Group:
    """The group with V before and after each turn, Q of its action and A = Q − V under ``NoisyExpert(noise)``.

    Args:
        group: complete rollouts from the start of the task.
        mdp: the task as tables; its horizon is the turn limit of the rollouts.
        noise: noise of the policy that defines the values.
    """
    values = evaluate(mdp, noisy_expert(mdp, noise))
    provenance = Provenance("exact", 1, {"policy": f"noisy:{noise:g}", "max_steps": mdp.horizon}).text()

    def annotated(turn: Turn, left: int) -> Turn:
        state, after = mdp.index[turn.state_key], mdp.index[turn.next_state_key]
        v = _rounded(values.value[left, state])
        q = _rounded(values.action_value[left, state, mdp.actions.index(turn.action)])
        numbers = (v, _rounded(values.value[left - 1, after]), q, round(q - v, DIGITS))
        return replace(turn, values={**turn.values, **dict(zip(ANNOTATIONS, numbers, strict=True))})

    def member(trajectory: Trajectory) -> Trajectory:
        turns = tuple(annotated(turn, mdp.horizon - index) for index, turn in enumerate(trajectory.turns))
        return replace(
            trajectory, turns=turns, provenance={**trajectory.provenance, **dict.fromkeys(ANNOTATIONS, provenance)}
        )

    return Group(tuple(map(member, group.trajectories)), group.task)


def _rounded(value: Any) -> float:
    return min(max(round(float(value), DIGITS), 0.0), 1.0)


def _card(rows: Mapping[str, int], settings: RolloutSettings, facts: Mapping[str, str]) -> str:
    of_env = SETTINGS[EXACT_ENV]
    split_of = {path: Path(path).name.partition(".")[0] for path in rows}
    counts = ["| configuration | split | rows |", "| --- | --- | --- |"]
    counts += [f"| `{Path(path).parent}` | {split_of[path]} | {count:,} |" for path, count in rows.items()]
    configs, features = list[str](), list[str]()
    for config, described in FEATURES.items():
        entries = [{"split": split, "path": path} for path, split in split_of.items() if path.startswith(f"{config}/")]
        configs += [f"- config_name: {config}", "  data_files:", *(f"  - {json.dumps(entry)}" for entry in entries)]
        features += [f"- config_name: {config}", "  features:", *(f"  - {json.dumps(entry)}" for entry in described)]
    return _template("dataset_card").substitute(
        facts, configs="\n".join(configs), features="\n".join(features), counts="\n".join(counts), example=next(iter(rows)),
        group_size=settings.group_size, continuation=of_env.continuation, noise=of_env.noise, max_steps=of_env.max_steps, digits=DIGITS,
        values=_section("Values"), policies=_section("Policies"),
        fields="\n".join(line for line in _section("Fields").splitlines() if line.startswith("|")),
    )  # fmt: skip


def _kinds(counts: Counter[str]) -> str:
    return f"The values of {counts['exact']:,} turns are exact, and those of {counts['forked']:,} are estimated from continuations."


def _section(title: str) -> str:
    """A section of the page of the credit set, which defines its values, policies and fields."""
    page = (files("creditflow.assets") / "credit_set" / "README.md").read_text("utf-8")
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0].strip()


def _template(name: str) -> Template:
    return Template((files("creditflow.assets") / "templates" / f"{name}.txt").read_text("utf-8"))


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
