"""Build the documentation site without network: stage the pages, run Sphinx with warnings as errors, check every link.

Run: ``PYTHONPATH=assets/site python -m builder.build [--out build/site]``; the site is then in ``build/site/html``.

The pages are those written for the site, those of the repository, and those generated from code and results, as one tree of
Markdown files, as Sphinx wants them. Nothing staged is stored, so no page can be out of date.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from builder.links import check_links
from builder.make import (
    environments,
    evidence,
    integrations,
    paper_index,
    playground,
    recipes,
    reference,
    schemes,
)
from builder.make.notebook import NOTEBOOK, notebook
from builder.markdown import deeper, staged_text
from builder.repository import APPENDED, NAVIGATION, PAGES, ROOT, WRITTEN, read
from creditflow.envs.errors import ConfigError, CreditflowError

__all__ = ["build", "main", "navigation", "pages", "stage"]

HERE = Path(__file__).resolve().parent  # has conf.py
GENERATORS = (environments, evidence, integrations, paper_index, playground, recipes, reference, schemes)
MARK = ".staged"  # a file that says whose folder it is


def build(out: Path) -> list[str]:
    """Build the site under a folder and return what is wrong with its links.

    Args:
        out: gets ``source`` (the staged pages), ``doctrees`` and ``html``; what is there is brought up to date.

    Raises:
        ConfigError: the folder's ``source`` holds other files.
        DataError: a stored result is damaged.
        SystemExit: Sphinx warned of something.
    """
    from sphinx.cmd.build import main as sphinx

    print("gathering pages …", file=sys.stderr, flush=True)
    stage(out / "source")
    count = sum(1 for _ in (out / "source").rglob("*.md"))
    print(f"executing a notebook and writing {count} pages, a minute or two …", file=sys.stderr, flush=True)
    # notebooks import the package of this checkout, and run the commands of this environment
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    _quiet(out / "ipython")
    options = ["-q", "-E", "-W", "--keep-going", "-c", str(HERE), "-d", str(out / "doctrees"), "-b", "html"]
    code = sphinx([*options, str(out / "source"), str(out / "html")])
    if code:
        raise SystemExit(code)
    return check_links(out / "html")


def _quiet(folder: Path) -> None:
    """Notebooks are executed without a line for each: their kernels otherwise warn that they listen on this machine's own ports."""
    settings = folder / "profile_default" / "ipython_kernel_config.py"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("c = get_config()\nc.Application.log_level = 40\n", encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(folder)
    logging.getLogger("traitlets").setLevel(logging.WARNING)


def pages() -> dict[str, list[tuple[str, str]]]:
    """By name of the page its parts: the repository's path that links and pictures are relative to, and the Markdown.

    Raises:
        ValueError: two sources make the same page, or the navigation lacks one.
    """
    collected: dict[str, list[tuple[str, str]]] = {}
    appended = {path for paths in APPENDED.values() for path in paths}
    written = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / WRITTEN).rglob("*.md"))]
    own = {path.removeprefix(WRITTEN).removesuffix(".md"): path for path in written if path not in appended}
    sources = [{page: (path, read(path)) for page, path in {**PAGES, **own}.items()}]
    sources += [module.pages() for module in GENERATORS]
    for source in sources:
        twice = collected.keys() & source.keys()
        if twice:
            raise ValueError(f"two sources for the pages {sorted(twice)}")
        collected |= {name: [part] for name, part in source.items()}
    for page, paths in APPENDED.items():
        if page in collected:  # tests make some of the pages
            collected[page] += [(path, deeper(read(path))) for path in paths]
    listed = {"index", *(name for names in NAVIGATION.values() for name in names)}
    if collected.keys() - listed:
        raise ValueError(f"pages that repository.NAVIGATION lacks: {sorted(collected.keys() - listed)}")
    return collected


def navigation(page: str) -> str:
    """The tables of contents of a page, which make the navigation: all sections on the front page, a folder on its index."""
    if page.endswith("/index"):
        folder = page.removesuffix("index")
        below = [name for names in NAVIGATION.values() for name in names if name.startswith(folder) and name != page]
        return _toctree("", below)
    if page != "index":
        return ""
    indexed = {name.removesuffix("index") for names in NAVIGATION.values() for name in names if name.endswith("/index")}
    tables = []
    for section, names in NAVIGATION.items():
        top = [name for name in names if name.endswith("/index") or f"{name.rpartition('/')[0]}/" not in indexed]
        tables.append(_toctree(section, top))
    return "".join(tables)


def _toctree(caption: str, names: list[str]) -> str:
    listed = "\n".join(f"/{name}" for name in names)
    return f"\n```{{toctree}}\n:hidden:\n{f':caption: {caption}' if caption else ''}\n\n{listed}\n```\n"


def _has_files(folder: Path) -> bool:
    return any(path.is_file() for path in folder.rglob("*"))


def stage(folder: Path) -> None:
    """Write the tree of pages; files that did not change keep their time, files that are no longer made go.

    Raises:
        ConfigError: the folder has files, and was not made by this function.
    """
    if folder.exists() and not (folder / MARK).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder} has files that are not staged pages, and would lose them: name another --out, or remove it"
        )
    written = {_write(folder / MARK, b""), _write(folder / NOTEBOOK, notebook().encode())}
    for name, parts in pages().items():
        texts, pictures = zip(*(staged_text(text, path) for path, text in parts), strict=True)
        written.add(_write(folder / f"{name}.md", ("\n\n".join(texts) + navigation(name)).encode()))
        written |= {_write(folder / picture, (ROOT / picture).read_bytes()) for picture in set().union(*pictures)}
    for old in [path for path in folder.rglob("*") if path.is_file() and path not in written]:
        old.unlink()
    for empty in [path for path in folder.rglob("*") if path.is_dir() and not _has_files(path)]:
        shutil.rmtree(empty, ignore_errors=True)


def _write(path: Path, content: bytes) -> Path:
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/site", metavar="DIR", help="default build/site")
    args = parser.parse_args(arguments)
    try:
        wrong = build(args.out.resolve())
    except CreditflowError as error:
        parser.error(str(error))
    for line in wrong:
        print(line, file=sys.stderr)
    count = sum(1 for _ in (args.out / "html").rglob("*.html"))
    print(f"{args.out / 'html'}/index.html: {count} pages, {len(wrong)} broken links")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
