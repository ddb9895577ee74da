"""One self-contained HTML file: data as inert JSON, one script and one style sheet allowed by their hashes."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

from creditflow.envs.errors import DataError

__all__ = ["MAX_PAGE", "render_page"]

MAX_PAGE = 128 * 2**20


def render_page(data: dict[str, Any]) -> str:
    """The page for ``view_data``.

    The content security policy allows only this script and this style sheet, both by hash, and pictures inside the page: text from a
    log can neither run nor load anything, even if a browser took it for markup.

    Raises:
        DataError: data of more than ``MAX_PAGE`` characters.
    """
    folder = files("creditflow.assets") / "viewer"
    script = (folder / "viewer.js").read_text(encoding="ascii")
    style = (folder / "viewer.css").read_text(encoding="ascii")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'"
    )
    # only "<" could end a script element; ">" and "&" are escaped as well, so that no HTML parser finds anything in it
    inert = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # as written, where each of the three characters takes six
    size = len(inert) + 5 * sum(map(inert.count, "<>&"))
    if size > MAX_PAGE:
        raise DataError(
            f"a page of {size:,} characters is too large for a browser, at most {MAX_PAGE:,} are written; show fewer groups "
            "(--limit)"
        )
    for character in "<>&":
        inert = inert.replace(character, f"\\u{ord(character):04x}")
    page = (folder / "viewer.html").read_text(encoding="utf-8")
    fillings = {
        "@POLICY@": html.escape(policy, quote=True).replace("&#x27;", "'"),
        "@TITLE@": html.escape(data["title"]),
        "@STYLE@": style,
        "@SCRIPT@": script,
        "@DATA@": inert,
    }
    for placeholder, text in fillings.items():
        head, separator, tail = page.partition(placeholder)
        if not separator:
            raise AssertionError(f"viewer.html lacks {placeholder}")
        page = head + text + tail
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
