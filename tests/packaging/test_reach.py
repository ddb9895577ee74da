"""How far a trip leads: the files of the package that a call enters, and the modules that a command leaves in memory.

Every trip is made once before it is traced, so imports and first uses of caches do not count. A ceiling is what was last measured
and may only fall; the aim is where it has to go. A failure lists the files.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from helpers.foreign_logs import SAMPLES, as_lines

import creditflow
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups

FILES = {  # trip: (aim, ceiling)
    "assign grpo": (6, 5),
    "assign gigpo": (6, 6),
    "step sokoban": (6, 6),
    "step webshop": (6, 6),
    "step wikisearch": (12, 12),
    "step alfworld": (12, 12),
    "import messages": (20, 20),
    "credit gigpo": (24, 22),
}
MODULES = (120, 81)  # in memory after `creditflow credit`
PACKAGE = Path(creditflow.__file__).parent
CO_OPTIMIZED = (
    1  # flag of a function's code; the bodies of modules and classes, which run when they are imported, lack it
)


def files_entered(trip: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> list[str]:
    """Files of the package in which a function runs during the second of two trips, relative to the package.

    What runs ``before`` each trip does not count.
    """
    entered: set[str] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_flags & CO_OPTIMIZED:
            entered.add(frame.f_code.co_filename)

    before()
    trip()
    before()
    profiler = sys.getprofile()
    sys.setprofile(profile)
    try:
        trip()
    finally:
        sys.setprofile(profiler)
    return sorted(name.removeprefix(f"{PACKAGE}/") for name in entered if name.startswith(f"{PACKAGE}/"))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of one group of Sokoban."""
    path: Path = tmp_path_factory.mktemp("reach") / "log.jsonl"
    assert main(["rollout", "--env", "sokoban", "--agent", "noisy:0.3", "--limit", "1", "--out", str(path)]) == 0
    return path


def check(files: list[str], trip: str) -> None:
    aim, ceiling = FILES[trip]
    assert len(files) <= ceiling, f"{trip} enters {len(files)} files (aim {aim}, ceiling {ceiling}): {' '.join(files)}"


@pytest.mark.parametrize("scheme", ["grpo", "gigpo"])
def test_credit_of_a_group_stays_near_its_scheme(scheme: str, log: Path) -> None:
    [group] = read_groups(log)
    made = creditflow.credit.make(scheme)
    check(files_entered(lambda: made.assign(group)), f"assign {scheme}")


@pytest.mark.parametrize(
    ("name", "position"),
    [("sokoban", 0), ("webshop", 0), ("wikisearch", 1), ("alfworld", 0)],
    ids=lambda value: str(value),
)
def test_a_step_stays_near_its_environment(name: str, position: int) -> None:
    """WikiSearch's first listed action is an answer, its second a search."""
    env: Any = creditflow.make(name).unwrapped
    action = env.reset(seed=0)[1]["admissible_actions"][position]
    check(files_entered(lambda: env.step(action), before=lambda: env.reset(seed=0)), f"step {name}")


def test_an_import_of_messages_stays_near_its_reader(log: Path) -> None:
    theirs = log.with_name("messages.jsonl")
    theirs.write_bytes(as_lines(SAMPLES["messages"]))
    command = ["data", "import", "messages", str(theirs), "--out", str(log.with_name("ours.jsonl")), "--force"]
    check(files_entered(lambda: main(command)), "import messages")


def test_the_command_credit_stays_near_its_scheme(log: Path) -> None:
    command = ["credit", "--scheme", "gigpo", str(log), "--out", str(log.with_name("credit.jsonl")), "--force"]
    check(files_entered(lambda: main(command)), "credit gigpo")


def test_the_command_credit_imports_few_modules(log: Path) -> None:
    code = (
        "import sys\nfrom creditflow.train.cli import main\n"
        f"code = main(['credit', '--scheme', 'gigpo', {str(log)!r}, '--out', {str(log.with_name('c.jsonl'))!r}])\n"
        "print(*(name for name in sorted(sys.modules) if name.partition('.')[0] == 'creditflow'))\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    modules = done.stdout.splitlines()[-1].split()
    aim, ceiling = MODULES
    assert len(modules) <= ceiling, f"{len(modules)} modules (aim {aim}, ceiling {ceiling}): {' '.join(modules)}"
