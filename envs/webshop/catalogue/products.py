"""A product, and its parsing from a record of WebShop's ``items_shuffle`` files.

A malformed record is skipped with a reason; ``read_products`` counts the reasons, or raises an error when ``strict``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from creditflow.envs.errors import DataError, short_repr

__all__ = ["LoadReport", "Product", "parse_pricing", "product_from_record", "read_products", "wanted_attributes"]

NO_PRICE = 100.0  # price of a product without one
NO_ATTRIBUTES = ("DUMMY_ATTR",)  # attributes of a product without an entry in the attribute file
MAX_ASIN = 10
_NOT_NUMERIC = re.compile(r"[^0-9.]")


@dataclass(frozen=True, slots=True)
class Product:
    """A product as its pages show it.

    Attributes:
        asin: identifier of at most ten characters.
        title, description: texts; the description is often empty.
        bullets: the "features" lines.
        prices: one price, or the two ends of a range, in dollars.
        price_tag: the price as shown.
        options: (group name, values) in page order, lower-case.
        attributes: compared with a goal's attributes by the reward.
        category, query: department, and the search phrase the product was collected under.
        product_category: path such as "Beauty › Hair Care".
        image: URL of the first picture, "" if none; never fetched.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    prices: tuple[float, ...]
    price_tag: str
    options: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]
    category: str
    query: str
    product_category: str
    image: str = ""

    def document(self) -> str:
        """The lower-case text that the search engine indexes."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {options}".lower()


@dataclass
class LoadReport:
    """Counts of the records of a file.

    Attributes:
        products: number of records that became products.
        skipped: reason -> number of records skipped for it.
        examples: reason -> place of the first one.
    """

    products: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict)

    def skip(self, reason: str, where: str) -> None:
        """Count one skipped record."""
        self.skipped[reason] += 1
        self.examples.setdefault(reason, where)

    def __str__(self) -> str:
        lines = [f"{self.products} products"]
        lines += [
            f"{count} skipped: {reason} (first: {self.examples[reason]})" for reason, count in self.skipped.items()
        ]
        return "; ".join(lines)


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{key!r} is {type(value).__name__}, expected a string")
    return value


def parse_pricing(text: str) -> tuple[tuple[float, ...], str]:
    """Prices and price tag of a "pricing" field.

    >>> parse_pricing("$5.99 - $9.99"), parse_pricing("")
    (((5.99, 9.99), '$5.99 to $9.99'), ((100.0,), '$100.0'))
    """
    if not text:
        return (NO_PRICE,), f"${NO_PRICE}"
    try:
        numbers = [float(_NOT_NUMERIC.sub("", piece)) for piece in text.split("$")[1:]]
    except ValueError as error:
        raise DataError(f"'pricing' has no readable price in {text[:60]!r}") from error
    if not numbers:
        raise DataError(f"'pricing' has no dollar amount in {text[:60]!r}")
    if len(numbers) == 1:
        return (numbers[0],), f"${numbers[0]}"
    return (numbers[0], numbers[1]), f"${numbers[0]} to ${numbers[1]}"


def _options(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not value:
        return ()
    if not isinstance(value, dict):
        raise DataError(f"'customization_options' is {type(value).__name__}, expected an object")
    groups: dict[str, tuple[str, ...]] = {}
    for name, entries in value.items():
        if entries is None:
            continue
        try:
            groups[name.lower()] = tuple(entry["value"].strip().replace("/", " | ").lower() for entry in entries)
        except (TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"'customization_options' group {name[:40]!r} is not a list of {{'value': text}}"
            ) from error
    return tuple(groups.items())


def wanted_attributes(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The attributes of a product's synthetic goals, from its entry; () if it has none.

    Raises:
        DataError: the entry is malformed.
    """
    if "instruction" not in entry:
        return ()
    attributes = entry.get("instruction_attributes", "")
    if not isinstance(entry["instruction"], str) or not _all_texts(attributes):
        raise DataError("'instruction' is not a string, or its 'instruction_attributes' is not a list of strings")
    return tuple(attributes)


def _all_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def product_from_record(record: Any, attributes: Mapping[str, Any]) -> Product:
    """The product of one record.

    Args:
        record: an element of ``items_shuffle*.json``.
        attributes: its entry in ``items_ins_v2*.json``, {} if there is none.

    Raises:
        DataError: a malformed field.
    """
    if not isinstance(record, dict):
        raise DataError(f"record is {type(record).__name__}, expected an object")
    asin = _text(record, "asin")
    if not asin or asin == "nan":
        raise DataError("no asin")
    if len(asin) > MAX_ASIN:
        raise DataError(f"asin longer than {MAX_ASIN} characters")
    bullets = record.get("small_description")
    bullets = [bullets] if isinstance(bullets, str) else bullets or []
    if not _all_texts(bullets):
        raise DataError("'small_description' is neither a string nor a list of strings")
    prices, tag = parse_pricing(_text(record, "pricing"))
    words = attributes.get("attributes", NO_ATTRIBUTES)
    if not _all_texts(words):
        raise DataError("'attributes' is not a list of strings")
    wanted_attributes(attributes)
    images = record.get("images")
    image = images[0] if isinstance(images, list) and images and isinstance(images[0], str) else ""
    return Product(
        asin=asin,
        title=_text(record, "name"),
        description=_text(record, "full_description"),
        bullets=tuple(bullets),
        prices=prices,
        price_tag=tag,
        options=_options(record.get("customization_options")),
        attributes=tuple(words),
        category=_text(record, "category"),
        query=_text(record, "query").lower().strip(),
        product_category=_text(record, "product_category"),
        image=image,
    )


def read_products(
    records: Iterable[Any], attributes: Mapping[str, Any], report: LoadReport, *, strict: bool = False
) -> Iterator[Product]:
    """Products in file order; malformed and repeated records are skipped and counted in ``report``.

    Raises:
        DataError: with ``strict``, at the first record that upstream's loader would not have skipped itself.
    """
    seen: set[str] = set()
    for number, record in enumerate(records):
        asin = record.get("asin") if isinstance(record, dict) else None
        if isinstance(asin, str) and asin in seen:
            report.skip("repeated asin", f"record {number} ({asin[:20]!r})")
            continue
        try:
            entry = attributes.get(asin, {}) if isinstance(asin, str) else {}
            product = product_from_record(record, entry if isinstance(entry, dict) else {"attributes": entry})
        except DataError as error:
            listed = isinstance(asin, str) and (asin == "nan" or len(asin) > MAX_ASIN)
            if strict and not listed:
                raise DataError(f"record {number} (asin {short_repr(asin, 20)}): {error}") from error
            report.skip(str(error), f"record {number} ({short_repr(asin, 20)})")
            continue
        seen.add(product.asin)
        report.products += 1
        yield product
