"""A key-value cache with room to grow: a step writes its tokens in place instead of copying all earlier ones.

``DynamicCache`` concatenates at every token, which copies the whole cache once per token. Here every layer has room for a
quarter more tokens than it holds, so that growing copies each token a few times at most, whatever the length.
"""

from __future__ import annotations

from typing import Any, Final

from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

__all__ = ["growing_cache"]

ROOM: Final = 1.25  # slots after growing, relative to the tokens held


class GrowingLayer(DynamicLayer):  # type: ignore[misc] # transformers is not typed
    """Keys and values (rows, heads, tokens, size) of one layer; the tensors handed out are views of larger ones."""

    _layer_type = None  # not a kind of layer of its own in a model's configuration

    def update(self, key_states: Any, value_states: Any, *_args: Any, **_kwargs: Any) -> tuple[Any, Any]:
        """Append tokens; returns all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states[..., :0, :], value_states[..., :0, :]
            self._room = (self.keys, self.values)
        used = int(self.keys.shape[-2])
        end = used + int(key_states.shape[-2])
        if end > self._room[0].shape[-2]:
            self._room = (_larger(self.keys, int(end * ROOM)), _larger(self.values, int(end * ROOM)))
        for room, states in zip(self._room, (key_states, value_states), strict=True):
            room[..., used:end, :] = states
        self.keys, self.values = (room[..., :end, :] for room in self._room)
        return self.keys, self.values

    def batch_select_indices(self, indices: Any) -> None:
        """Keep these rows."""
        if self.is_initialized:
            super().batch_select_indices(indices)
            self._room = (self.keys, self.values)


def _larger(states: Any, slots: int) -> Any:
    """A tensor with more slots that begins with these states."""
    room = states.new_empty((*states.shape[:-2], slots, states.shape[-1]))
    room[..., : states.shape[-2], :] = states
    return room


def growing_cache(config: Any) -> Any:
    """The dynamic cache of a model; its layers of full attention have room to grow.

    Args:
        config: configuration of the model.
    """
    cache = DynamicCache(config=config)
    cache.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache
