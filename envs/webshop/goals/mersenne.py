"""The random stream that WebShop's goal order, prices and price caps are drawn from.

WebShop draws them with Python's Mersenne Twister; goals of the same number are the same goals only if the very same
stream is replayed. Everything else in this package draws from NumPy generators.
"""

from random import Random as Mersenne  # noqa: TID251 - the recorded goal order is this generator's stream

__all__ = ["Mersenne"]
