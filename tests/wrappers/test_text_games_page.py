"""The examples of the page "Other text games" are short."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.text_games import code_lines, page_files


@pytest.mark.parametrize("tier", ["alfworld", "gem"])
def test_an_example_is_one_file_of_at_most_fifty_lines(tier: str, tmp_path: Path) -> None:
    [path] = page_files(tier, tmp_path)
    assert code_lines(path) <= 50
