"""The random generator of WebShop's goal order, prices and price caps.

WebShop samples them with Python's Mersenne Twister; a goal's number denotes the same goal only if the same stream is
replayed. Everything else in this package uses NumPy generators.
"""

from random import Random as Mersenne  # noqa: TID251 - the recorded goal order is this generator's stream

__all__ = ["Mersenne"]
