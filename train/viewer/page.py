"""One self-contained HTML file: data as inert JSON, one script and one style allowed by their hashes."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

__all__ = ["render_page"]


def render_page(data: dict[str, Any]) -> str:
    """The page for ``view_data``.

    The content security policy forbids everything but this script and this style, both by hash: text from a log can
    neither run nor load anything, even if some browser took it for markup.
    """
    folder = files("creditflow.assets") / "viewer"
    script = (folder / "viewer.js").read_text(encoding="ascii")
    style = (folder / "viewer.css").read_text(encoding="ascii")
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'"
    # inside a script element only "<" could end it; escaping also > and & keeps every HTML parser indifferent
    inert = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        inert = inert.replace(character, f"\\u{ord(character):04x}")
    page = (folder / "viewer.html").read_text(encoding="utf-8")
    parts = {
        "@POLICY@": html.escape(policy, quote=True).replace("&#x27;", "'"),
        "@TITLE@": html.escape(data["title"]),
        "@STYLE@": style,
        "@SCRIPT@": script,
        "@DATA@": inert,
    }
    for mark, text in parts.items():
        head, found, tail = page.partition(mark)
        if not found:
            raise AssertionError(f"viewer.html lacks {mark}")
        page = head + text + tail
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
