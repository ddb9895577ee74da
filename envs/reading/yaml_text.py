"""Untrusted YAML: the part of it that settings files need.

The parser is PyYAML's safe loader without aliases (a text of 400 bytes can expand to gigabytes), tags (dates, sets and
binaries are not plain data) and repeated keys. A date remains a string. StrictYAML has no flow lists (``[1, 2]``) and
needs a schema and two more packages; pydantic and msgspec delegate YAML to PyYAML.
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.limits import SETTINGS, Limits
from creditflow.envs.reading.plain_data import check_plain

__all__ = ["parse_yaml"]

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = tuple(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map"))
_UNSUPPORTED: Final = tuple(f"{_TAG}{name}" for name in ("timestamp", "merge", "value"))


class _PlainLoader(yaml.SafeLoader):
    """A loader of plain data.

    Args:
        stream: text of the document.
        depth: most levels of nesting.
    """

    yaml_constructors = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in _PLAIN} | {None: None}
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _UNSUPPORTED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str, *, depth: int) -> None:
        super().__init__(stream)
        self.depth, self.level = depth, 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose the next node, unless it is an alias or nested too deeply."""
        event = self.peek_event()
        if self.check_event(yaml.AliasEvent):
            reason = f"aliases (*{event.anchor:.40}) are not supported: write the value out"
            raise ComposerError(None, None, reason, event.start_mark)
        if self.level > self.depth:
            raise ComposerError(None, None, f"nested deeper than {self.depth} levels", event.start_mark)
        self.level += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.level -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping with distinct string keys."""
        if not isinstance(node, yaml.MappingNode):  # "!!map" before another kind of node
            raise ConstructorError(None, None, "expected a mapping", node.start_mark)
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            mark = key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConstructorError(None, None, "expected a string as key", mark)
            key = key_node.value
            if key in lines:
                reason = f"the key {short_repr(key, 80)} already occurs in line {lines[key]}"
                raise ConstructorError(None, None, reason, mark)
            lines[key] = mark.line + 1
        return dict(super().construct_mapping(node, deep=deep))

    def construct_scalar_value(self, node: Any) -> Any:
        """Construct a boolean or a number."""
        try:
            return yaml.SafeLoader.yaml_constructors[node.tag](self, node)
        except (ValueError, OverflowError, LookupError) as error:  # too many digits, or a tag on another kind of value
            reason = f"{short_repr(node.value)} is not of the kind {node.tag.rpartition(':')[2]}: {error}"
            raise ConstructorError(None, None, reason, node.start_mark) from error

    def construct_other(self, node: Any) -> Any:
        """Reject any other tag."""
        reason = f"{short_repr(node.tag, 80)} is not supported: expected strings, numbers, lists and mappings"
        raise ConstructorError(None, None, reason, node.start_mark)


for _kind in ("bool", "int", "float"):
    _PlainLoader.yaml_constructors[f"{_TAG}{_kind}"] = _PlainLoader.construct_scalar_value
_PlainLoader.yaml_constructors[None] = _PlainLoader.construct_other


def parse_yaml(text: str, *, where: str, limits: Limits = SETTINGS) -> Any:
    """Parse a YAML document into plain data.

    Args:
        text: text of the document.
        where: file or option, with which every message begins.
        limits: limits of the text and of its values.

    Raises:
        DataError: not YAML, not plain data, an alias, a repeated key, a limit exceeded; names the line.
    """
    if len(text) > limits.characters:
        raise DataError(f"{where}: longer than {limits.characters:,} characters")
    try:
        value = _PlainLoader(text, depth=limits.depth).get_single_data()
    except yaml.YAMLError as error:
        raise DataError(f"{where}: not YAML: {error}") from error
    check_plain(value, limits, where)
    return value
