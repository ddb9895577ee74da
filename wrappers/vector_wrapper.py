"""Gymnasium's base class of vector wrappers, whose type parameters exist at run time from a later Gymnasium on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorWrapper

__all__ = ["AnyVectorWrapper"]

if TYPE_CHECKING:
    AnyVectorWrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:
    AnyVectorWrapper = VectorWrapper
