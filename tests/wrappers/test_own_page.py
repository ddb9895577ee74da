"""The example of ``wrappers/README.md`` runs."""

from __future__ import annotations

import re
from typing import Any

from helpers.shared_data import ROOT


def test_the_example_runs_and_its_comment_is_true():
    page = (ROOT / "wrappers/README.md").read_text("utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page is ours
    assert {t.success for t in names["group"].trajectories} == {True, False}  # a reader sees credit that is not 0
    assert all(one.any() for one in names["advantages"])
    assert len(names["advantages"]) == 8
    assert [len(one) for one in names["advantages"]] == [len(t.turns) for t in names["group"].trajectories]
