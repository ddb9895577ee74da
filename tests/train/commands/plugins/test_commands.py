"""Schemes, agents and environments of a user in every command: by a path, with --load, on workers, resumed, and when they fail."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
from helpers.plugins import AGENT, ENVIRONMENT, SCHEME, forget
from helpers.smoke_bench import smoke_bench

from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups

pytestmark = pytest.mark.usefixtures("forgotten")

LADDER = ["--env-set", "success=positive_reward", "--env-set", "max_episode_steps=9"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files of a user, in the working directory."""
    for name, source in (("mine", SCHEME), ("nth", AGENT), ("ladder", ENVIRONMENT)):
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rollout(out: str, *more: str, agent: str = "nth.py:Nth:1") -> list[str]:
    return ["rollout", "--env", "ladder.py:Ladder", *LADDER, "--agent", agent, "--limit", "2", "--group-size", "2",
            "--out", out, *more]  # fmt: skip


def test_an_environment_and_an_agent_by_path_play_the_same_on_workers(folder):
    assert main(rollout("here.jsonl")) == 0
    [first, second] = read_groups("here.jsonl")
    assert [turn.action for turn in first.turns] == ["1"] * 6
    assert first.trajectories[0].policy == "nth:1"
    assert json.loads(second.trajectories[0].provenance["run"])["versions"]["plugins"].keys() == {
        "agent nth",
        "environment Ladder",
    }
    assert main(rollout("there.jsonl", "--workers", "2")) == 0
    assert Path("there.jsonl").read_bytes() == Path("here.jsonl").read_bytes()


def test_a_run_resumes_only_with_the_code_that_it_was_started_with(folder, capsys):
    assert main(rollout("log.jsonl")) == 0
    whole = Path("log.jsonl").read_bytes()
    begun = whole.splitlines(keepends=True)[:2]
    Path("log.jsonl").unlink()
    Path("log.jsonl.partial").write_bytes(b"".join(begun))
    forget()
    (folder / "nth.py").write_text(AGENT + "# another version\n", "utf-8")
    assert main(rollout("log.jsonl", "--resume")) == 3
    assert 'versions.plugins.agent nth: stored "blake2b:' in capsys.readouterr().err
    forget()
    (folder / "nth.py").write_text(AGENT, "utf-8")
    assert main(rollout("log.jsonl", "--resume")) == 0
    assert Path("log.jsonl").read_bytes() == whole


def test_a_scheme_by_path_or_loaded_is_taken_by_every_command_that_names_schemes(folder, capsys):
    assert (
        main(
            [
                "rollout",
                "--panel",
                "small-v1:valid",
                "--limit",
                "2",
                "--group-size",
                "4",
                "--agent",
                "noisy:0.5",
                "--out",
                "log.jsonl",
            ]
        )
        == 0
    )
    assert main(["credit", "--scheme", "mine.py:Mine", "--set", "weight=3.0", "log.jsonl", "--out", "a.jsonl"]) == 0
    forget()
    assert (
        main(
            [
                "credit",
                "--scheme",
                "mine",
                "--load",
                "mine.py:Mine",
                "--set",
                "weight=3.0",
                "log.jsonl",
                "--out",
                "b.jsonl",
            ]
        )
        == 0
    )
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    assert json.loads(Path("a.jsonl").read_text().splitlines()[0])["scheme"] == "mine"
    forget()
    assert main(["view", "--schemes", "grpo,mine.py:Mine", "log.jsonl", "--out", "page.html"]) == 0
    assert "mine" in Path("page.html").read_text()
    forget()
    capsys.readouterr()
    assert main(["audit", "--load", "mine.py:Mine", "log.jsonl"]) == 0
    assert "mine" in capsys.readouterr().out
    assert main(["schemes", "mine.py:Mine"]) == 0
    assert capsys.readouterr().out.startswith("mine: A_i = w (R_i - mean R)")
    forget()
    assert main(["credit", "--scheme", "mine", "log.jsonl"]) == 2
    assert "unknown credit scheme 'mine'" in capsys.readouterr().err


def test_the_benchmark_measures_a_scheme_by_path_and_resumes_only_with_its_code(folder, capsys):
    command = ("grpo,mine.py:Mine", "--out", "run")
    assert smoke_bench(*command) == 0
    stored = json.loads(Path("run/run.json").read_text())
    assert stored["methods"] == ["grpo", "mine"]
    assert stored["versions"]["plugins"].keys() == {"scheme mine"}
    forget()
    capsys.readouterr()
    assert main(["bench", "--show", "run/results.json"]) == 0, "results are shown without the code"
    assert "mine" in capsys.readouterr().out
    (folder / "mine.py").write_text(SCHEME + "# another version\n", "utf-8")
    assert smoke_bench(*command, "--resume") == 3
    assert 'versions.plugins.scheme mine: stored "blake2b:' in capsys.readouterr().err


def test_the_files_of_plug_ins_are_inputs(folder, capsys):
    Path("log.jsonl").write_text("")
    for arguments in (
        ["credit", "--scheme", "mine.py:Mine", "log.jsonl"],
        ["audit", "--load", "mine.py:Mine", "log.jsonl"],
        rollout("x")[:-2],
    ):
        target = "ladder.py" if arguments[0] == "rollout" else "mine.py"
        assert main([*arguments, "--out", target, "--force"]) == 2
        assert f"--out {target} is the input" in capsys.readouterr().err
    assert Path("mine.py").read_text() == SCHEME


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ("def reset(self, **_): raise RuntimeError('no server')", 1, r"environment 'Ladder' \(.*failed: RuntimeError: no server"),
        ("def step(self, _): return 0, 1.0, True, {}", 1, r"environment 'plugins/Ladder-v0', step failed: ValueError"),
        ("def step(self, _): return 0, float('nan'), True, False, {}", 3, "plugins/Ladder-v0: a reward must be a finite number, got nan"),
        ("def __init__(self): raise OSError('no display')", 1, r"environment 'Ladder' \(.*ladder\.py, line \d+\) failed: OSError: no display"),
        ("action_space = property(lambda self: {}['x'])", 1, r"environment 'Ladder'.* failed: KeyError: 'x'"),
    ],
)  # fmt: skip
def test_an_environment_that_fails_is_named_and_is_no_defect_of_the_package(changed, code, message, folder, capsys):
    (folder / "ladder.py").write_text(f"{ENVIRONMENT}\n    {changed}\n", "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's own, of the old interface
        assert main(rollout("log.jsonl")) == code
    error = capsys.readouterr().err
    assert re.search(rf"^creditflow: {message}", error, re.MULTILINE)
    assert "defect" not in error


@pytest.mark.parametrize(
    ("returned", "got"), [("[]", "got 0$"), ("None", "got NoneType"), ("[3] * len(views)", "got a list with int")]
)
def test_an_agent_that_does_not_decide_for_every_view_is_named(returned, got, folder, capsys):
    source = f"class Nth:\n    name = 'nth'\n    def act(self, views): return {returned}\n"
    (folder / "nth.py").write_text(source, "utf-8")
    assert main(rollout("log.jsonl", agent="nth.py:Nth")) == 2
    error = capsys.readouterr().err.strip()
    assert re.search(rf"agent 'nth': act must return 2 Decision in a list, one per view, {got}", error)
    (folder / "nth.py").write_text(AGENT, "utf-8")
    forget()
    assert main(rollout("log.jsonl")) == 0, "a command that failed before its first group leaves nothing to resume"


DIRECT = "Credit(returns, np.zeros(n), np.zeros(n), {}, group.arrays.offsets, {})"


@pytest.mark.parametrize(
    ("returned", "code", "message"),
    [
        (DIRECT.format("np.ones(n, bool)", "aggregation='turn_meen'"), 2, "loss aggregation 'turn_meen'; did you mean 'turn_mean'"),
        (DIRECT.format("np.full(n, .5)", ""), 2, "flat_loss_mask must be bool in a NumPy array, got float64"),
        (DIRECT.format("[True] * n", ""), 2, "flat_loss_mask must be bool in a NumPy array, got list"),
        (DIRECT.format("np.ones(n - 1, bool)", ""), 2, "flat_loss_mask must have shape"),
        (DIRECT.format("np.ones(n, bool)", "").replace("returns", "returns * np.nan"), 1, "outcome_advantages must be finite"),
        (DIRECT.format("np.ones(n, bool)", "").replace("arrays.offsets", "arrays.offsets + 1"), 2, "offsets must be those"),
        ("Credit.of(group, outcome=returns, aggregation='mean')", 2, "unknown loss aggregation 'mean'"),
        ("Credit.of(group, outcome=returns, loss_mask=np.full(n, .5))", 2, "flat_loss_mask must be bool"),
        ("3, Credit.of(group, outcome=returns)", 2, "assign must return Credit, got tuple"),
        ("__import__('sys').exit(0)", 2, r"assign ended the program, by sys\.exit\(0\)"),
    ],
)  # fmt: skip
def test_malformed_credit_is_one_error_that_names_the_scheme_in_every_command(returned, code, message, folder, capsys):
    source = SCHEME.replace("return Credit.of(group, outcome=self.weight * (returns - returns.mean()))",
                            f"import numpy as np\n        n = len(group.turns)\n        return {returned}")  # fmt: skip
    (folder / "mine.py").write_text(source, "utf-8")
    rolled = ["rollout", "--panel", "small-v1:valid", "--limit", "1", "--group-size", "2", "--out", "log.jsonl"]
    assert main(rolled) == 0
    for command in (
        ["credit", "--scheme", "mine.py:Mine", "log.jsonl"],
        ["credit", "--scheme", "mine.py:Mine", "log.jsonl", "--why", "0:0"],
        ["view", "log.jsonl", "--schemes", "mine.py:Mine", "--out", "page.html"],
    ):
        capsys.readouterr()
        if "--why" in command:
            command[-1] = f"{read_groups('log.jsonl')[0].trajectories[0].trajectory_id}:0"
        assert main(command) == code, command
        error = capsys.readouterr().err
        assert re.search(rf"scheme 'mine'.*{message}", error, re.DOTALL), error
        assert "defect" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["credit", "--scheme", "mine.py:Min", "x"], "did you mean 'Mine'"),
        (["credit", "--scheme", "nth.py:Nth", "x"], "nth.py:Nth is not a credit scheme"),
        (["audit", "--load", "ladder.py:gym", "x"], "ladder.py:gym is not a plug-in"),
        (["audit", "--load", "mine.py", "x"], "mine.py is a file; name what you mean in it: mine.py:Mine"),
        (["rollout", "--env", "mine.py:Mine", "--out", "x"], "mine.py:Mine is not an environment"),
        (["rollout", "--agent", "mine.py:Mine", "--out", "x"], "mine.py:Mine is not an agent"),
        (["rollout", "--env", "ladder.py:Ladder", "--limit", "1", "--out", "x"], "define success with --env-set"),
    ],
)
def test_wrong_specs_are_wrong_use(arguments, message, folder, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("leaving", ["sys.exit(0)", "sys.exit('bye')", "raise SystemExit"])
def test_an_environment_that_ends_the_program_is_a_failure_that_names_it(leaving, folder, capsys):
    source = ENVIRONMENT.replace("        self.at +=", f"        import sys; {leaving}\n        self.at +=")
    (folder / "ladder.py").write_text(source, "utf-8")
    assert main(rollout("x.jsonl")) in (1, 2)
    error = capsys.readouterr().err
    assert "ended the program, by sys.exit(" in error
    assert "adder" in error
    assert not Path("x.jsonl").exists()


RAISED = {
    "1 / 0": "failed: ZeroDivisionError: division by zero",
    "raise BrokenPipeError(32, 'Broken pipe')": r"failed: BrokenPipeError: \[Errno 32\] Broken pipe",  # not that of our output
    "raise StopIteration": "failed: StopIteration",  # which ends a loop
    "import asyncio; raise asyncio.CancelledError": "failed: CancelledError",  # no Exception
    "open('/nothing')": "failed: FileNotFoundError",
    "raise type('Odd', (Exception,), {'__str__': None})()": "failed: Odd: its message cannot be shown",
    "import sys; sys.exit(0)": r"ended the program, by sys\.exit\(0\)",
}


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("kind", ["agent", "scheme"])
def test_whatever_a_plug_in_raises_names_its_file_and_is_no_success(raised, kind, folder, capsys):
    if kind == "agent":
        (folder / "nth.py").write_text(AGENT.replace("        texts =", f"        {raised}\n        texts ="), "utf-8")
        command = rollout("out.jsonl")
    else:
        (folder / "mine.py").write_text(
            SCHEME.replace("        returns =", f"        {raised}\n        returns ="), "utf-8"
        )
        assert (
            main(["rollout", "--panel", "small-v1:valid", "--limit", "1", "--group-size", "2", "--out", "log.jsonl"])
            == 0
        )
        command = ["credit", "--scheme", "mine.py:Mine", "log.jsonl", "--out", "out.jsonl"]
    capsys.readouterr()
    assert main(command) in (1, 2)
    error = capsys.readouterr().err
    assert re.search(rf"^creditflow: {kind} '(nth|mine)'.* {RAISED[raised]}", error, re.MULTILINE), error
    assert "defect" not in error
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("__import__('sys').exit(0)", r"agent 'nth' \(.*nth\.py, line \d+\) ended the program, by sys\.exit\(0\)"),
        ("raise StopIteration", r"agent 'nth' \(.*nth\.py, line \d+\) failed: StopIteration"),
        ("__import__('os')._exit(1)", r"a worker was lost \(.*: exit code 1\)\. .*: agent 'nth' \(nth\.py:Nth\)"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", r"a worker was lost \(.*: signal 9\)\. .*: agent 'nth'"),
    ],
)  # fmt: skip
def test_a_plug_in_that_fails_or_dies_in_a_worker_is_named_and_the_log_is_resumed(raised, message, folder, capsys):
    counted = "        with Path('calls').open('a') as calls: calls.write('x')\n"
    ends = f"        if Path('fails').exists() and Path('calls').stat().st_size > 3: {raised}\n        texts ="
    source = AGENT.replace("        texts =", counted + ends)
    (folder / "nth.py").write_text(f"from pathlib import Path\n{source}", "utf-8")
    assert main(rollout("whole.jsonl")) == 0
    Path("calls").unlink()  # a group takes three
    Path("fails").touch()
    assert main(rollout("out.jsonl", "--workers", "1")) == 1
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert "Traceback" not in error
    assert not Path("out.jsonl").exists()
    assert len(read_groups("out.jsonl.partial")) == 1
    Path("fails").unlink()
    assert main(rollout("out.jsonl", "--workers", "1", "--resume")) == 0
    assert Path("out.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()
