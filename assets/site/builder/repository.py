"""Where the site's pages come from: the checkout, and which of its pages become which page of the site."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["ADDRESS", "APPENDED", "MADE", "NOT_RUN", "PAGES", "REPOSITORY", "ROOT", "RUN", "WRITTEN", "read"]

ROOT: Final = Path(__file__).resolve().parents[3]
WRITTEN: Final = "assets/site/pages/"  # pages written for the site
_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY: Final[str] = _PROJECT["urls"]["Repository"]
ADDRESS: Final = f"{REPOSITORY}/blob/main"  # where the published repository shows its files


def read(path: str) -> str:
    """The text of a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


# page of the site -> page of the repository, shown as it is
PAGES: Final[Mapping[str, str]] = {
    "integrations/index": "train/adapters/README.md",
    "integrations/loops": "train/adapters/LOOPS.md",
    "integrations/trl": "train/adapters/TRL.md",
    "integrations/verifiers": "train/adapters/VERIFIERS.md",
    "integrations/verl": "train/adapters/VERL.md",
    "integrations/verl_scaling": "train/adapters/SCALING.md",
    "reference/architecture": "ARCHITECTURE.md",
    "reference/changelog": "CHANGELOG.md",
    "reference/contributing": "CONTRIBUTING.md",
    "reference/import_export": "train/adapters/DATA.md",
}

# page of the site -> pages of the repository that follow on it, their headings one level deeper
APPENDED: Final[Mapping[str, tuple[str, ...]]] = {
    "concepts/bias_and_variance": (f"{WRITTEN}concepts/without_states.md",),
    "environments/own": ("wrappers/README.md", "wrappers/TEXT_GAMES.md"),
    "how_to/audit": (f"{WRITTEN}how_to/check_batch.md", "assets/credit_set/README.md"),
    "how_to/reproduce": (f"{WRITTEN}how_to/reproduce_ragen.md",),
    "how_to/train": (f"{WRITTEN}how_to/evaluate.md", f"{WRITTEN}how_to/small_model.md"),
    "integrations/loops": ("train/adapters/OPENENV.md", "train/adapters/TORCHRL.md"),
    "start/install": ("train/commands/EXTRAS.md",),
    "start/questions": (f"{WRITTEN}start/when_credit_fails.md",),
}


def _anchor(path: str) -> str:
    """The anchor of a page's heading."""
    title = read(path).partition("\n")[0].removeprefix("# ")
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


# what a page may link to -> page of the site that is made from it, with the anchor of its part
MADE: Final[Mapping[str, str]] = {
    **{path: page for page, path in PAGES.items()},
    **{path: f"{page}#{_anchor(path)}" for page, paths in APPENDED.items() for path in paths},
    **{
        f"wrappers/credit/states/{name}.py": f"schemes/{name}"
        for name in ("blend", "gigpo", "graphgpo", "grouptd", "rewardflow")
    },
    "assets/site/papers.toml": "reference/paper_index",
    **{f"envs/{name}/README.md": f"environments/{name}" for name in ("alfworld", "sokoban", "webshop", "wikisearch")},
    "envs/info.py": "reference/info",
    "tests/evidence": "benchmark/studies",
    "train/cli.py": "reference/commands",
    "train/configs": "how_to/reproduce",
    "train/settings": "reference/settings",
    "wrappers/__init__.py": "reference/api_wrappers",
    "wrappers/credit/SCHEMES.md": "schemes/index",
    "wrappers/credit/entities/egrpo.py": "schemes/egrpo",
    "wrappers/records/trajectory.py": "reference/log",
}

# pages of the repository whose blocks without a mark run in the tier docs, beside those written for the site
RUN: Final = (
    "assets/credit_set/README.md",
    "envs/alfworld/README.md",
    "envs/sokoban/README.md",
    "envs/webshop/README.md",
    "envs/wikisearch/README.md",
    "wrappers/README.md",
)

# pages of the repository whose blocks without a mark do not run there -> what the site says below them
NOT_RUN: Final[Mapping[str, str]] = {
    "CONTRIBUTING.md": "Not run by any test: it sets up the tests.",
    "train/adapters/DATA.md": "Not run by any test: the files are yours, or the measurement.",
    "train/adapters/OPENENV.md": "Only read by the tests: it needs a running server.",
    "train/adapters/TORCHRL.md": "Tested by `.ci/run torchrl`.",
    "train/adapters/VERL.md": "Not run by any test: it needs verl and GPUs.",
}
