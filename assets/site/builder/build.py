"""Build the documentation site without network: stage the pages, and run Sphinx with warnings as errors.

Sphinx warns of a link to a page or anchor that does not exist, of a page that no table of contents lists, and of a docstring that it cannot read.

Run: ``PYTHONPATH=assets/site python -m builder.build [--out build/site]``; the site is then in ``build/site/html``.

The pages are those written for the site, those of the repository, and those generated from code and results, as one tree of
Markdown files, as Sphinx wants them. Nothing staged is stored, so no page can be out of date.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from builder.make import commands, environments, evidence, paper_index, recipes, schemes
from builder.make.notebook import NOTEBOOK, notebook
from builder.make.playground import PLAYGROUND, markup
from builder.markdown import deeper, staged_text
from builder.repository import APPENDED, PAGES, ROOT, WRITTEN, read
from creditflow.envs.errors import ConfigError, CreditflowError

__all__ = ["build", "loaded_from_elsewhere", "main", "pages", "stage"]

HERE = Path(__file__).resolve().parent  # has conf.py
GENERATORS = (commands, environments, evidence, paper_index, recipes, schemes)
MARK = ".staged"  # a file that says whose folder it is
LOADED = re.compile(  # what a browser fetches for a page or style sheet, by an address on another host; and links without encryption
    r"<(?!a\b)[^<>]*\b(?:src|srcset|poster|data|href)=[\"'](?:https?:)?//[^\"']*|href=[\"']http://[^\"']*"
    r"|url\(\s*[\"']?(?:https?:)?//|@import\s+[\"'](?:https?:)?//",
    re.IGNORECASE,
)


def build(out: Path) -> list[str]:
    """Build the site under a folder and return what it would load from another host.

    Args:
        out: gets ``source`` (the staged pages), ``doctrees`` and ``html``; what is there is brought up to date.

    Raises:
        ConfigError: the folder's ``source`` holds other files.
        DataError: a stored result is damaged.
        SystemExit: Sphinx warned of something, such as a broken link.
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
    return loaded_from_elsewhere(out / "html")


def loaded_from_elsewhere(folder: Path) -> list[str]:
    """What the pages and style sheets of a folder load from another host, and links that are not https, one line each."""
    files = (path for path in sorted(folder.rglob("*")) if path.suffix in (".html", ".css"))
    return [
        f"{path.relative_to(folder)}: {found}" for path in files for found in LOADED.findall(path.read_text("utf-8"))
    ]


def _quiet(folder: Path) -> None:
    """Notebooks are executed without a line for each: their kernels otherwise warn that they listen on this machine's own ports."""
    settings = folder / "profile_default" / "ipython_kernel_config.py"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("c = get_config()\nc.Application.log_level = 40\n", encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(folder)
    logging.getLogger("traitlets").setLevel(logging.WARNING)


def pages() -> dict[str, list[tuple[str, str]]]:
    """By name of the page its parts: the repository's path that links and pictures are relative to, and the Markdown."""
    appended = {path for paths in APPENDED.values() for path in paths}
    written = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / WRITTEN).rglob("*.md"))]
    own = {path.removeprefix(WRITTEN).removesuffix(".md"): path for path in written if path not in appended}
    sources = {page: (path, read(path)) for page, path in {**PAGES, **own}.items()}
    for module in GENERATORS:
        sources |= module.pages()
    collected = {page: [part] for page, part in sources.items()}
    for page, paths in APPENDED.items():
        collected[page] += [(path, deeper(read(path))) for path in paths]
    return collected


def stage(folder: Path) -> None:
    """Write the tree of pages anew.

    Raises:
        ConfigError: the folder exists and was not made by this function.
    """
    if folder.exists():
        if not (folder / MARK).is_file():
            raise ConfigError(
                f"{folder} has files that are not staged pages, and would lose them: name another --out, or remove it"
            )
        shutil.rmtree(folder)
    _write(folder / MARK, b"")
    _write(folder / NOTEBOOK, notebook().encode())
    _write(folder / PLAYGROUND, markup().encode())
    for name, parts in pages().items():
        texts, pictures = zip(*(staged_text(text, path) for path, text in parts), strict=True)
        _write(folder / f"{name}.md", "\n\n".join(texts).encode())
        for picture in set().union(*pictures):
            _write(folder / picture, (ROOT / picture).read_bytes())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


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
    print(f"{args.out / 'html'}/index.html: {count} pages, {len(wrong)} addresses on other hosts or without https")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
