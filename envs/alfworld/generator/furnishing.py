"""Content of generated houses: tables of rooms, furniture and objects.

Objects come in families with the same placement; furniture accepts families. The vocabulary is ALFWorld's, so prompts
and parsers carry over; which objects occur where, and how often, is a simplification of our own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ACCEPTS", "FAMILIES", "OPENABLE", "ROOMS", "THINGS", "Furniture", "Room"]


class Furniture(NamedTuple):
    """Frequency of one type of furniture: in ``percent`` of 100 rooms there are ``low`` to ``high`` pieces."""

    type: str
    percent: int
    low: int
    high: int


class Room(NamedTuple):
    """A kind of room.

    Attributes:
        furniture: its possible furniture.
        things: (family, fewest, most) objects of each family.
        fixtures: objects that have a location and cannot be taken.
    """

    furniture: tuple[Furniture, ...]
    things: tuple[tuple[str, int, int], ...]
    fixtures: tuple[str, ...]


_DISH = ("cleanable", "coolable", "heatable", "isreceptacleobject", "pickupable")
_PAN = ("cleanable", "coolable", "isreceptacleobject", "pickupable")
_FOOD = ("cleanable", "coolable", "heatable", "pickupable", "sliceable")
_WASHABLE = ("cleanable", "pickupable")
_PLAIN = ("pickupable",)

# family -> thing -> affordances
FAMILIES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "food": {
        **dict.fromkeys(("apple", "egg", "potato", "tomato"), _FOOD),
        "bread": ("coolable", "heatable", "pickupable", "sliceable"),
        "lettuce": ("cleanable", "coolable", "pickupable", "sliceable"),
    },
    "dish": {**dict.fromkeys(("cup", "mug", "plate"), _DISH), "bowl": _PAN},
    "cookware": {**dict.fromkeys(("pan", "pot"), _PAN), "kettle": _WASHABLE},
    "cutlery": dict.fromkeys(("butterknife", "fork", "knife", "ladle", "spatula", "spoon"), _WASHABLE),
    "bottle": {"glassbottle": _PLAIN, "winebottle": ("coolable", "pickupable")},
    "seasoning": dict.fromkeys(("peppershaker", "saltshaker"), _PLAIN),
    "washing": dict.fromkeys(("cloth", "dishsponge", "soapbar"), _WASHABLE),
    "toiletry": dict.fromkeys(("candle", "soapbottle", "spraybottle", "tissuebox", "toiletpaper"), _PLAIN),
    "towel": {"towel": _PLAIN},
    "handtowel": {"handtowel": _PLAIN},
    "pocket": dict.fromkeys(("cd", "cellphone", "creditcard", "keychain", "pen", "pencil", "watch"), _PLAIN),
    "media": dict.fromkeys(("book", "newspaper", "remotecontrol"), _PLAIN),
    "desk": {**dict.fromkeys(("alarmclock", "laptop"), _PLAIN), "box": ("isreceptacleobject", "pickupable")},
    "decor": dict.fromkeys(("statue", "vase", "wateringcan"), _PLAIN),
    "pillow": {"pillow": _PLAIN},
    "sport": dict.fromkeys(("baseballbat", "basketball", "tennisracket"), _PLAIN),
    "desklamp": {"desklamp": ("toggleable",)},
    "floorlamp": {"floorlamp": ("toggleable",)},
}
THINGS: Final[dict[str, tuple[str, ...]]] = {
    thing: affordances for family in FAMILIES.values() for thing, affordances in family.items()
}

# furniture -> families that may be put there
ACCEPTS: Final[dict[str, tuple[str, ...]]] = {
    "armchair": ("media", "pillow", "pocket"),
    "bathtubbasin": ("handtowel", "washing"),
    "bed": ("desk", "media", "pillow", "sport"),
    "cabinet": ("bottle", "cookware", "dish", "handtowel", "seasoning", "toiletry", "washing"),
    "cart": ("handtowel", "toiletry", "washing"),
    "coffeemachine": ("dish",),
    "coffeetable": ("decor", "desk", "dish", "media", "pocket"),
    "countertop": (
        "bottle", "cookware", "cutlery", "decor", "dish", "food", "handtowel", "pocket", "seasoning", "toiletry",
        "washing",
    ),
    "desk": ("decor", "desk", "desklamp", "dish", "media", "pocket", "sport"),
    "diningtable": ("bottle", "cookware", "cutlery", "decor", "desk", "dish", "food", "media", "pocket", "seasoning"),
    "drawer": ("cutlery", "handtowel", "media", "pocket", "seasoning", "toiletry", "washing"),
    "dresser": ("decor", "desk", "desklamp", "media", "pocket", "toiletry"),
    "fridge": ("bottle", "cookware", "dish", "food"),
    "garbagecan": ("bottle", "food", "media", "toiletry", "washing"),
    "handtowelholder": ("handtowel",),
    "laundryhamper": ("washing",),
    "microwave": ("dish", "food"),
    "ottoman": ("media", "pillow", "pocket"),
    "safe": ("decor", "pocket"),
    "shelf": ("bottle", "cookware", "decor", "desk", "desklamp", "dish", "media", "pocket", "seasoning", "toiletry"),
    "sidetable": ("decor", "desk", "desklamp", "dish", "floorlamp", "food", "media", "pocket", "toiletry"),
    "sinkbasin": ("cookware", "cutlery", "dish", "food", "handtowel", "washing"),
    "sofa": ("desk", "media", "pillow", "pocket"),
    "stoveburner": ("cookware",),
    "toaster": (),
    "toilet": ("handtowel", "toiletry", "washing"),
    "toiletpaperhanger": (),
    "towelholder": ("towel",),
    "tvstand": ("decor", "floorlamp", "media"),
}  # fmt: skip

# type of furniture that may be openable -> percentage that is
OPENABLE: Final[dict[str, int]] = {"cabinet": 85, "drawer": 85, "fridge": 100, "microwave": 100, "safe": 90}

ROOMS: Final[dict[str, Room]] = {
    "kitchen": Room(
        (
            Furniture("cabinet", 100, 3, 14),
            Furniture("coffeemachine", 90, 1, 1),
            Furniture("countertop", 100, 1, 3),
            Furniture("diningtable", 55, 1, 2),
            Furniture("drawer", 95, 1, 8),
            Furniture("fridge", 100, 1, 1),
            Furniture("garbagecan", 100, 1, 1),
            Furniture("microwave", 100, 1, 1),
            Furniture("shelf", 25, 1, 3),
            Furniture("sidetable", 15, 1, 1),
            Furniture("sinkbasin", 100, 1, 1),
            Furniture("stoveburner", 100, 2, 4),
            Furniture("toaster", 90, 1, 1),
        ),
        (
            ("food", 5, 12), ("dish", 4, 9), ("cookware", 2, 5), ("cutlery", 5, 10), ("bottle", 0, 3),
            ("seasoning", 1, 4), ("washing", 1, 3), ("toiletry", 0, 2), ("pocket", 0, 2), ("decor", 0, 1),
        ),
        ("sink", "window", "lightswitch", "chair", "stoveknob"),
    ),
    "bathroom": Room(
        (
            Furniture("bathtubbasin", 65, 1, 1),
            Furniture("cabinet", 60, 1, 6),
            Furniture("cart", 15, 1, 1),
            Furniture("countertop", 85, 1, 2),
            Furniture("drawer", 50, 1, 6),
            Furniture("garbagecan", 100, 1, 1),
            Furniture("handtowelholder", 90, 1, 3),
            Furniture("shelf", 30, 1, 3),
            Furniture("sinkbasin", 100, 1, 2),
            Furniture("toilet", 100, 1, 1),
            Furniture("toiletpaperhanger", 90, 1, 1),
            Furniture("towelholder", 90, 1, 2),
        ),
        (("washing", 3, 7), ("toiletry", 5, 11), ("towel", 0, 2), ("handtowel", 1, 2)),
        ("sink", "mirror", "window", "lightswitch", "showerdoor"),
    ),
    "bedroom": Room(
        (
            Furniture("armchair", 30, 1, 2),
            Furniture("bed", 100, 1, 2),
            Furniture("cabinet", 15, 1, 3),
            Furniture("desk", 70, 1, 2),
            Furniture("drawer", 95, 2, 9),
            Furniture("dresser", 50, 1, 1),
            Furniture("garbagecan", 95, 1, 1),
            Furniture("laundryhamper", 30, 1, 1),
            Furniture("safe", 25, 1, 1),
            Furniture("shelf", 60, 1, 6),
            Furniture("sidetable", 65, 1, 2),
        ),
        (
            ("pocket", 5, 11), ("media", 2, 4), ("desk", 2, 4), ("pillow", 1, 3), ("sport", 0, 2),
            ("dish", 0, 2), ("decor", 0, 1), ("desklamp", 0, 2), ("washing", 0, 2),
        ),
        ("window", "mirror", "lightswitch", "chair", "blinds"),
    ),
    "living": Room(
        (
            Furniture("armchair", 90, 1, 3),
            Furniture("cabinet", 20, 1, 5),
            Furniture("coffeetable", 80, 1, 2),
            Furniture("desk", 10, 1, 1),
            Furniture("diningtable", 50, 1, 1),
            Furniture("drawer", 75, 1, 7),
            Furniture("dresser", 30, 1, 1),
            Furniture("garbagecan", 100, 1, 1),
            Furniture("ottoman", 20, 1, 1),
            Furniture("safe", 10, 1, 1),
            Furniture("shelf", 40, 1, 7),
            Furniture("sidetable", 80, 1, 3),
            Furniture("sofa", 100, 1, 2),
            Furniture("tvstand", 60, 1, 1),
        ),
        (
            ("pocket", 3, 7), ("media", 3, 7), ("desk", 2, 4), ("decor", 2, 5), ("pillow", 1, 3), ("dish", 0, 2),
            ("floorlamp", 1, 1), ("desklamp", 0, 1), ("toiletry", 0, 2),
        ),
        ("television", "window", "painting", "houseplant", "lightswitch"),
    ),
}  # fmt: skip
