"""Where the site's pages come from: the checkout, and which of its pages become which page of the site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["MADE", "NOT_RUN", "PAGES", "ROOT", "RUN", "TARGETS", "WRITTEN", "read"]

ROOT: Final = Path(__file__).resolve().parents[2]
WRITTEN: Final = "assets/site/pages/"  # pages written for the site


def _evidence() -> dict[str, str]:
    """The pages beside stored evidence: `evidence/NAME` from NAME.md or from NAME/README.md."""
    paths = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests" / "evidence").rglob("*.md"))]
    return {path.removeprefix("tests/").removesuffix(".md").removesuffix("/README"): path for path in paths}


# page of the site -> page of the repository, shown as it is
PAGES: Final[Mapping[str, str]] = {
    **_evidence(),
    "start/extras": "train/doctor/EXTRAS.md",
    "how_to/own_environment": "wrappers/README.md",
    "how_to/text_games": "wrappers/TEXT_GAMES.md",
    "how_to/credit_set": "assets/credit_set/README.md",
    "integrations/data": "train/adapters/DATA.md",
    "integrations/loops": "train/adapters/LOOPS.md",
    "integrations/openenv": "train/adapters/OPENENV.md",
    "integrations/torchrl": "train/adapters/TORCHRL.md",
    "integrations/verl_agent": "train/adapters/VERL_AGENT.md",
    "integrations/verl_scaling": "train/adapters/SCALING.md",
    "reference/architecture": "ARCHITECTURE.md",
    "reference/changelog": "CHANGELOG.md",
    "reference/contributing": "CONTRIBUTING.md",
}

# what a page may name in backquotes -> page of the site that it then links to
TARGETS: Final[Mapping[str, str]] = {
    **{path: page for page, path in PAGES.items()},
    **{path.removesuffix("/README.md"): page for page, path in PAGES.items() if path.startswith("tests/evidence/")},
    "envs/alfworld/README.md": "environments/alfworld",
    "envs/sokoban/README.md": "environments/sokoban",
    "envs/webshop/README.md": "environments/webshop",
    "envs/wikisearch/README.md": "environments/wikisearch",
    "train/adapters/README.md": "integrations/index",
    "wrappers/credit/SCHEMES.md": "schemes/index",
}

# what a page may link to -> the page of the site that is made from it
MADE: Final[Mapping[str, str]] = {
    **TARGETS,
    **{f"wrappers/credit/states/{name}.py": f"schemes/{name}" for name in ("blend", "gigpo", "graphgpo", "grouptd", "rewardflow")},
    "assets/site/papers.toml": "paper_index",
    "envs/info.py": "reference/info_schema",
    "tests/evidence": "evidence/index",
    "train/cli.py": "reference/commands",
    "train/configs": "how_to/reproduce",
    "train/settings": "reference/settings_schema",
    "wrappers/__init__.py": "reference/api/index",
    "wrappers/credit/annotations/actor_critic.py": "schemes/index",
    "wrappers/credit/annotations/prm.py": "schemes/index",
    "wrappers/credit/entities/egrpo.py": "schemes/egrpo",
    "wrappers/potentials.py": "how_to/potentials",
    "wrappers/records/trajectory.py": "reference/log_schema",
}  # fmt: skip

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
    "train/adapters/README.md": "Not run by any test: it needs verl and GPUs.",
    "train/adapters/TORCHRL.md": "Run by the tests of the tier `torchrl`.",
    "train/adapters/VERL_AGENT.md": "Not run by any test: it needs verl-agent and GPUs.",
}


def read(path: str) -> str:
    """The text of a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")
