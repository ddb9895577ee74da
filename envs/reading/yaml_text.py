"""Untrusted YAML: the part of it that settings files need.

The parser is PyYAML's safe loader without aliases (a text of 400 bytes can expand to gigabytes), tags (dates, sets and
binaries are not plain data) and repeated keys. A date remains a string. StrictYAML has no flow lists (``[1, 2]``) and
needs a schema and two more packages; pydantic and msgspec delegate YAML to PyYAML.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from creditflow.envs.errors import DataError, MissingExtraError, short_repr
from creditflow.envs.reading.limits import SETTINGS, Limits
from creditflow.envs.reading.plain_data import check_plain

__all__ = ["parse_yaml"]

_PLAIN: Final = tuple(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map"))
_UNSUPPORTED: Final = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")


def parse_yaml(text: str, *, where: str, limits: Limits = SETTINGS) -> Any:
    """Parse a YAML document into plain data.

    Args:
        text: text of the document.
        where: file or option, with which every message begins.
        limits: limits of the text and of its values.

    Raises:
        DataError: not YAML, not plain data, an alias, a repeated key, a limit exceeded; names the line.
        MissingExtraError: PyYAML is not installed.
    """
    if len(text) > limits.characters:
        raise DataError(f"{where}: longer than {limits.characters:,} characters")
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("pyyaml", "train") from error
    try:
        value = yaml.load(text, Loader=_loader(limits.depth))  # noqa: S506 - a subclass of the safe loader with fewer features
    except yaml.YAMLError as error:
        raise DataError(f"{where}: not YAML: {error}") from error
    check_plain(value, limits, where)
    return value


@cache
def _loader(depth: int) -> type[Any]:
    """Return a loader class for documents of at most ``depth`` levels."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types here
        """The safe loader without aliases, other tags, or repeated keys."""

        yaml_constructors = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in _PLAIN} | {None: None}
        yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag not in _UNSUPPORTED]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.level = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                raise yaml.composer.ComposerError(
                    None,
                    None,
                    f"aliases (*{event.anchor:.40}) are not supported: write the value out",
                    event.start_mark,
                )
            if self.level > depth:
                raise yaml.composer.ComposerError(
                    None, None, f"nested deeper than {depth} levels", self.peek_event().start_mark
                )
            self.level += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.level -= 1

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            if not isinstance(node, yaml.MappingNode):  # "!!map" before something else
                raise yaml.constructor.ConstructorError(None, None, "expected a mapping", node.start_mark)
            first: dict[Any, int] = {}
            for key_node, _ in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(None, None, "expected a string as key", key_node.start_mark)
                key, line = key_node.value, key_node.start_mark.line + 1
                if key in first:
                    raise yaml.constructor.ConstructorError(
                        None,
                        None,
                        f"the key {short_repr(key, 80)} already occurs in line {first[key]}",
                        key_node.start_mark,
                    )
                first[key] = line
            return dict(super().construct_mapping(node, deep=deep))

        def construct_scalar_value(self, node: Any) -> Any:
            try:
                return yaml.SafeLoader.yaml_constructors[node.tag](self, node)
            except (
                ValueError,
                OverflowError,
                LookupError,
            ) as error:  # too many digits, or a tag on another kind of value
                kind, text = node.tag.rpartition(":")[2], short_repr(node.value)
                raise yaml.constructor.ConstructorError(
                    None, None, f"{text} is not of the kind {kind}: {error}", node.start_mark
                ) from error

        def construct_other(self, node: Any) -> Any:
            raise yaml.constructor.ConstructorError(
                None, None, f"{short_repr(node.tag, 80)} is not supported: expected strings, numbers, lists and mappings",
                node.start_mark,
            )  # fmt: skip

    for kind in ("bool", "int", "float"):
        Loader.yaml_constructors[f"tag:yaml.org,2002:{kind}"] = Loader.construct_scalar_value
    Loader.yaml_constructors[None] = Loader.construct_other
    return Loader
