"""Build the documentation site without network: stage the pages, run Sphinx with warnings as errors, check every link.

Run: ``python -m creditflow.assets.site.build [--out build/site]``; the site is then in ``build/site/html``.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from creditflow.assets.site.check.links import check_links
from creditflow.assets.site.repository import ROOT
from creditflow.assets.site.stage import stage
from creditflow.envs.errors import CreditflowError

__all__ = ["build", "main"]

HERE = Path(__file__).resolve().parent


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
    pages = sum(1 for _ in (out / "source").rglob("*.md"))
    print(f"executing three notebooks and writing {pages} pages, a minute or two …", file=sys.stderr, flush=True)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/site", metavar="DIR", help="default build/site")
    args = parser.parse_args(arguments)
    try:
        wrong = build(args.out.resolve())
    except CreditflowError as error:
        parser.error(str(error))
    for line in wrong:
        print(line, file=sys.stderr)
    pages = sum(1 for _ in (args.out / "html").rglob("*.html"))
    print(f"{args.out / 'html'}/index.html: {pages} pages, {len(wrong)} broken links")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
