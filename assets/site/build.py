"""Build the documentation site without network: stage the pages, run Sphinx with warnings as errors, check every link.

Run: ``python -m creditflow.assets.site.build [--out build/site]``; the site is then in ``build/site/html``.

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

from creditflow.assets.site.check.links import check_links
from creditflow.assets.site.make import (
    environments,
    evidence,
    integrations,
    paper_index,
    recipes,
    reference,
    schemes,
)
from creditflow.assets.site.markdown import staged_text
from creditflow.assets.site.repository import PAGES, ROOT, WRITTEN, read
from creditflow.envs.errors import ConfigError, CreditflowError

__all__ = ["build", "main", "pages", "stage"]

HERE = Path(__file__).resolve().parent
GENERATORS = (environments, evidence, integrations, paper_index, recipes, reference, schemes)
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
    print(f"executing three notebooks and writing {count} pages, a minute or two …", file=sys.stderr, flush=True)
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


def pages() -> dict[str, tuple[str, str]]:
    """By name of the page (path, text): the repository's path that its links and pictures are relative to, and the Markdown.

    Raises:
        ValueError: two sources make the same page.
    """
    collected: dict[str, tuple[str, str]] = {}
    sources = [{page: (path, read(path)) for page, path in PAGES.items()}]
    written = sorted((HERE / "pages").rglob("*.md"))
    names = [path.relative_to(HERE / "pages").with_suffix("").as_posix() for path in written]
    sources.append({name: (f"{WRITTEN}{name}.md", read(f"{WRITTEN}{name}.md")) for name in names})
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
