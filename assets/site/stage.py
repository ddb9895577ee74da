"""Stage the pages: those written for the site, those of the repository, and those generated from code and results.

They are one tree of Markdown files, as Sphinx wants them. Nothing staged is stored, so no page can be out of date.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from creditflow.assets.site.make import (
    api,
    commands,
    environments,
    evidence,
    integrations,
    leaderboard,
    paper_index,
    potentials,
    recipes,
    schemas,
    schemes,
)
from creditflow.assets.site.markdown import staged_text
from creditflow.assets.site.repository import PAGES, ROOT, read
from creditflow.envs.errors import ConfigError

__all__ = ["pages", "stage"]

MARK = ".staged"  # a file that says whose folder it is
HERE = Path(__file__).resolve().parent
GENERATORS = (
    api,
    commands,
    environments,
    evidence,
    integrations,
    leaderboard,
    paper_index,
    potentials,
    recipes,
    schemas,
    schemes,
)


def pages() -> dict[str, tuple[str, str]]:
    """By name of the page (path, text): the repository's path that its links and pictures are relative to, and the Markdown.

    Raises:
        ValueError: two sources make the same page.
    """
    collected: dict[str, tuple[str, str]] = {}
    sources = [{page: (path, read(path)) for page, path in PAGES.items()}]
    written = sorted((HERE / "pages").rglob("*.md"))
    names = [path.relative_to(HERE / "pages").with_suffix("").as_posix() for path in written]
    sources.append({name: ("", path.read_text(encoding="utf-8")) for name, path in zip(names, written, strict=True)})
    sources += [module.pages() for module in GENERATORS]
    for source in sources:
        twice = collected.keys() & source.keys()
        if twice:
            raise ValueError(f"two sources for the pages {sorted(twice)}")
        collected |= source
    return collected


def stage(folder: Path) -> None:
    """Write the tree of pages; files that did not change keep their time, files that are no longer made go.

    Raises:
        ConfigError: the folder has files, and was not made by this function.
    """
    if folder.exists() and not (folder / MARK).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder} has files that are not staged pages, and would lose them: name another --out, or remove it"
        )
    written = {_write(folder / MARK, b"")}
    for name, (path, text) in pages().items():
        staged, pictures = staged_text(text, path)
        written.add(_write(folder / f"{name}.md", staged.encode()))
        written |= {_write(folder / picture, (ROOT / picture).read_bytes()) for picture in pictures}
    for old in [path for path in folder.rglob("*") if path.is_file() and path not in written]:
        old.unlink()
    for empty in [
        path for path in folder.rglob("*") if path.is_dir() and not any(p.is_file() for p in path.rglob("*"))
    ]:
        shutil.rmtree(empty, ignore_errors=True)


def _write(path: Path, content: bytes) -> Path:
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return path
