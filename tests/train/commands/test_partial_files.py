"""A damaged partial log of an interrupted command is an error with exit code 3 that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from creditflow.train.cli import main

DAMAGED = [
    b"\xff\xfe\x00\n",
    "täglich\n".encode(),
    b"{}\n",
    b'{"format_version": 1, "format_version": 1}\n',
    b"[" * 10_000 + b"\n",
]


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_partial_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    log = tmp_path / "log.jsonl"
    rollout = ["rollout", "--env", "sokoban", "--agent", "random", "--panel", "small-v1:valid", "--limit", "1"]
    assert main([*rollout, "--group-size", "1", "--out", str(log)]) == 0
    for command in (
        [*rollout, "--group-size", "1"],
        ["annotate", "--with", "oracle", "--env", "sokoban", "--panel", "small-v1:valid", str(log)],
    ):
        out = tmp_path / "out.jsonl"
        partial = out.with_name(out.name + ".partial")
        partial.write_bytes(data)
        capsys.readouterr()
        assert main([*command, "--out", str(out), "--resume"]) == 3
        shown = capsys.readouterr().err
        assert "Traceback" not in shown
        assert partial.name in shown
        assert not out.exists()
        partial.unlink()
