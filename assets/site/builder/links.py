"""Check the links of a built site offline: files and anchors exist, addresses elsewhere are well formed, nothing is loaded from there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urldefrag, urlsplit

__all__ = ["check_links", "external_links"]

_HOST: Final = re.compile(r"^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}(?::\d+)?$", re.IGNORECASE)
_LOADED: Final = re.compile(
    r"url\(\s*[\"']?(?:https?:)?//|@import\s+[\"'](?:https?:)?//", re.IGNORECASE
)  # by a style sheet


class _Page(HTMLParser):
    """Ids and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, str, str]] = []  # (tag, attribute, address)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag names."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src", "poster", "data") and value is not None:
                self.links.append((tag, name, value))
            if name == "srcset" and value:
                self.links += [(tag, name, candidate.split()[0]) for candidate in value.split(",") if candidate.split()]


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _links(folder: Path) -> Iterator[tuple[Path, str, str, str]]:
    for path in sorted(folder.rglob("*.html")):
        for tag, name, address in _read(path).links:
            yield path, tag, name, address


def external_links(folder: Path) -> dict[str, list[str]]:
    """Addresses outside the site, each with the pages that name it."""
    addresses: dict[str, list[str]] = {}
    for path, _, _, address in _links(folder):
        if urlsplit(address).scheme in ("http", "https"):
            addresses.setdefault(address, []).append(path.relative_to(folder).as_posix())
    return addresses


def check_links(folder: Path) -> list[str]:
    """What is wrong with the links of a built site, one line each; nothing is fetched.

    Args:
        folder: the built site.
    """
    _read.cache_clear()
    wrong = []
    for path, tag, name, address in _links(folder):
        fault = _fault(folder, path, tag, name, address)
        if fault:
            wrong.append(f"{path.relative_to(folder)}: {address}: {fault}")
    wrong += [
        f"{path.relative_to(folder)}: {match.group()}: loaded from another host"
        for path in folder.rglob("*.css")
        if (match := _LOADED.search(path.read_text(encoding="utf-8")))
    ]
    return sorted(set(wrong))


def _fault(folder: Path, path: Path, tag: str, name: str, address: str) -> str:
    url = urlsplit(address)
    if url.scheme in ("data", "mailto"):
        return ""
    if url.scheme or url.netloc:
        if name != "href" or tag == "link":
            return "loaded from another host"
        if url.scheme != "https":
            return "not https"
        return "" if _HOST.match(url.netloc) else "not a host"
    page, anchor = urldefrag(address)
    file = path if not page else (path.parent / unquote(urlsplit(page).path)).resolve()
    if file.is_dir():
        file /= "index.html"
    if not file.is_file():
        return "no such page"
    if not file.is_relative_to(folder.resolve()):
        return "outside the site"
    if anchor and file.suffix == ".html" and unquote(anchor) not in _read(file).ids:
        return "no such anchor"
    return ""
