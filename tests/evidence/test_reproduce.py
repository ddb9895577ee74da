"""Stored results come out of today's code: a sample of the files that take seconds."""

from __future__ import annotations

import subprocess
import sys

from evidence import reproduce
from evidence.reproduce import FILES, differences


def test_samples_of_stored_results_are_reproduced():
    quick = [name for name in FILES if name.endswith(".jsonl")]
    command = [
        sys.executable,
        reproduce.__file__,
        "--rows",
        "2",
        *quick,
    ]  # in a process of its own: it registers schemes
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = done.stdout.splitlines()
    for name in quick:
        [row] = [row for row in rows if row.startswith(f"{name}: ")]
        assert int(row.split()[1]) > 0  # numbers were compared


def test_a_difference_is_found_wherever_it_is():
    stored = {"a": [1.0, {"b": 2}], "c": None}
    assert differences(stored, stored) == []
    assert [(d.where, d.size) for d in differences(stored, {"a": [1.0, {"b": 2.5}]}, "x")] == [("x/a/b", 0.5)]
    assert differences([1.0], [1.0, 2.0])[0].size == float("inf")
