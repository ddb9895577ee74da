"""Environments of tests install code alone: no package of model weights or data stands in ``constraints/``."""

from __future__ import annotations

import re

import pytest
from helpers.shared_data import ROOT

TIERS = sorted(path.name for path in (ROOT / "constraints").glob("*.txt"))
# names of published models and of what packages of weights call themselves
WEIGHTS = re.compile(
    r"mini-?lm|mpnet|bge|(?:^|-)e5(?:-|$)|llama|qwen|mistral(?!-common)|gpt-?\d|weights|pretrained|checkpoint|en-core-web|embedding"
)


@pytest.mark.parametrize("tier", TIERS)
def test_no_package_of_weights_is_installed(tier: str) -> None:
    lines = (ROOT / "constraints" / tier).read_text("utf-8").splitlines()
    wanted = [line.removeprefix("# no-deps:").removeprefix("# also:").strip().lower() for line in lines]
    packages = [
        name for line in wanted if not line.startswith("#") for name in re.findall(r"[\w.-]+(?===|$|\s|\[)", line)
    ]
    assert not [name for name in packages if WEIGHTS.search(name.replace("_", "-"))]
