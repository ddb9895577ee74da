"""Advertisements inserted into pages: the noise with which GraphGPO tests its merging of states.

Only the observation changes, not the rules, the actions or the state keys. The lines and their positions are a function
of a key sampled at reset and of the actions since, so a restored snapshot has the same page, and two visits to one state
have different ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from creditflow.envs.webshop.render import Node

__all__ = ["AD_BANK", "insert_ads", "next_key"]

AD_BANK = (
    "Members save more: join the club today!",
    "Flash sale ends at midnight.",
    "Free delivery on your first order.",
    "Customers who looked at this also bought a gift card.",
    "Sign up for our newsletter and get a coupon.",
    "Sponsored: the kitchen gadget everybody talks about.",
    "Only today: two for the price of one.",
    "Rate your last purchase and win a prize.",
    "Sponsored: sneakers that walk by themselves, almost.",
    "Download our app for deals on the go.",
    "Trade in your old phone for store credit.",
    "Sponsored: a mattress you will not want to leave.",
    "Clearance: last chance to save on summer styles.",
    "Need help choosing? Chat with an expert.",
    "Bundle and save: add batteries to your order.",
    "Sponsored: coffee so good it wakes the neighbours.",
)


def insert_ads(
    nodes: Sequence[Node], count: int, key: str, *, chance: float = 1.0, bank: Sequence[str] = AD_BANK
) -> list[Node]:
    """The nodes with up to ``count`` lines of ``bank`` between them, never before the instruction.

    Args:
        nodes: a page.
        count: number of lines.
        key: determines the choice; equal keys give equal pages.
        chance: probability that each line appears.
        bank: lines to choose from.
    """
    noisy = list(nodes)
    for number in range(count):
        digest = hashlib.blake2b(f"{key}:{number}".encode("utf-8", "surrogatepass"), digest_size=12).digest()
        line, position, uniform = (int.from_bytes(digest[i : i + 4], "big") for i in (0, 4, 8))
        if uniform >= chance * 2**32:
            continue
        first = min(3, len(noisy))
        noisy.insert(first + position % (len(noisy) - first + 1), Node("text", bank[line % len(bank)]))
    return noisy


def next_key(key: str, action: str) -> str:
    """The key of the page after ``action``."""
    return hashlib.blake2b(f"{key}:{action}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
