"""The ``transformers`` backend: our own batched loop over turns, with a key-value cache kept across turns.

Episodes of one batch run in lockstep, and so do their caches: each call processes only the tokens that are new since the last
one (the last sampled token and the next message), left-padded to one width, with explicit positions and a mask over cache
slots. Rows whose episode has ended are dropped. A row is only continued by ids that begin with those it holds; if one
request of a call does not (a windowed prompt, a new episode), all are computed from their whole ids, so the cache never
affects a result.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
import transformers
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.backends.distributions import LONGEST, Distributions
from creditflow.agents.backends.token_sampling import entropy_of, sample_tokens
from creditflow.agents.models.lora import has_adapter, merge_adapter, merged_weights
from creditflow.agents.models.vision import (
    completion_logits,
    has_vision,
    picture_tensors,
    rope_positions,
    text_config,
    unseen_pictures,
)

__all__ = ["CACHE_ARGUMENT", "Cohort", "TransformersBackend", "growing_cache", "one_token_attention", "picture_names"]


@dataclass
class Cohort:
    """Rows that share one cache.

    Attributes:
        keys: keys of the rows, in order.
        seen: int64 (R,), number of tokens of each conversation in the cache.
        held: for each key, ids that begin with those ``seen`` tokens.
        picture_names: for each key, the names of the pictures in those ids.
        mask: bool (R, S), which cache slots hold a token of the row.
        used: S, the number of slots in use.
        cache: the model's key-value cache.
    """

    keys: list[Hashable]
    seen: np.ndarray[Any, np.dtype[np.int64]]
    held: list[np.ndarray[Any, np.dtype[np.int32]]]
    picture_names: list[tuple[str, ...]]
    mask: Any
    used: int
    cache: Any

    def continued_by(self, requests: Sequence[GenerationRequest]) -> list[int] | None:
        """The row of each request, if every request continues a row of its own; else None."""
        rows = {key: row for row, key in enumerate(self.keys)}
        chosen = [rows.get(request.key, -1) for request in requests]
        if -1 in chosen or len(set(chosen)) < len(chosen):
            return None
        for row, request in zip(chosen, requests, strict=True):
            seen = int(self.seen[row])
            if seen >= len(request.ids) or not np.array_equal(self.held[row][:seen], request.ids[:seen]):
                return None
            if self.picture_names[row] != picture_names(request)[: len(self.picture_names[row])]:
                return None
        return chosen

    def keep(self, places: Sequence[int], rows: Any) -> None:
        """Drop all rows but ``places``; ``rows`` are the same indices on the device."""
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]
        self.seen = self.seen[list(places)]
        self.keys, self.held = [self.keys[p] for p in places], [self.held[p] for p in places]
        self.picture_names = [self.picture_names[p] for p in places]


def picture_names(request: GenerationRequest) -> tuple[str, ...]:
    """The names of a request's pictures."""
    return tuple(picture.name for picture in request.pictures)


# the argument of a model's forward for the key-value cache, which transformers 5.24 renamed
CACHE_ARGUMENT: Final = (
    "cache" if tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 24) else "past_key_values"
)
ROOM: Final = 1.25  # slots after growing, relative to the tokens held


class GrowingLayer(DynamicLayer):
    """Keys and values (rows, heads, tokens, size) of one layer; a step writes its tokens in place.

    ``DynamicLayer`` concatenates, which copies the whole cache once per token. A layer here has room for a quarter more tokens
    than it has, so each token is copied a few times at most, and the tensors handed out are views of larger ones.
    """

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


def one_token_attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **options: Any
) -> tuple[Any, None]:
    """Attention of one new token, in which query heads that share keys and values are rows of one product.

    Before 5.23, transformers repeats the whole cache for every query head where there is a mask, in every layer and at every
    token. All other calls are those of transformers.

    Args:
        module: the attention layer.
        query: (rows, heads, tokens, size).
        key, value: (rows, heads that have keys and values, slots, size).
        attention_mask: bool (rows, 1, tokens, slots), or None.
        scaling: of the products.
        **options: for transformers.

    Returns:
        (rows, tokens, heads, size), and None.
    """
    rows, heads, tokens, size = query.shape
    if tokens > 1 or attention_mask is None or heads == key.shape[1] or options.get("position_bias") is not None:
        usual: tuple[Any, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return usual
    together = query.reshape(rows, key.shape[1], heads // key.shape[1], size)
    output = torch.nn.functional.scaled_dot_product_attention(
        together, key, value, attn_mask=attention_mask, scale=scaling
    )
    return output.reshape(rows, 1, heads, value.shape[-1]), None


@contextmanager
def _one_token_attention() -> Iterator[None]:
    """Models with ``sdpa`` attention use ``one_token_attention`` in the block."""
    ALL_ATTENTION_FUNCTIONS["sdpa"] = one_token_attention
    try:
        yield
    finally:
        if "sdpa" in ALL_ATTENTION_FUNCTIONS._local_mapping:
            del ALL_ATTENTION_FUNCTIONS["sdpa"]


class TransformersBackend:
    """Samples from a causal language model of ``transformers``.

    Args:
        model: the model, on its device.
        dtype: type of the sampling copy, such as ``torch.bfloat16``; None samples from ``model`` itself, or from a copy with
            its adapter merged. A copy must be refreshed with ``sync()`` after every update.
        version: names the weights in logs.

    Attributes:
        context: maximum sequence length of the model.
    """

    def __init__(self, model: Any, *, dtype: Any = None, version: str = "0") -> None:
        self._vision = has_vision(model)
        self._source = model
        first = next(model.parameters())
        converted = dtype is not None and dtype != first.dtype
        # a layer with an adapter takes several times as long; in 16 bits the sum of both would lose small updates
        self._merged = has_adapter(model) and first.dtype == torch.float32
        self._copied = converted or self._merged
        self.model = copy.deepcopy(model) if self._copied else model
        if self._merged:
            merge_adapter(self.model)
        if converted:
            self.model.to(dtype)
        self.model.eval()
        self.device = first.device
        self.version = version
        config = text_config(model)
        window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
        self.context = min(filter(None, (getattr(config, "max_position_embeddings", 0), window)), default=0)
        self.sync_numbers: dict[str, float] = {}
        self._cohort: Cohort | None = None
        self._distributions = Distributions()

    def sync(self, version: str = "") -> None:
        """Copy the source model's weights and drop the cache of the old ones."""
        if self._copied:
            with torch.no_grad():
                if self._merged:
                    weights = merged_weights(self._source)
                    for name, copied in self.model.named_parameters():
                        copied.copy_(weights[name])
                else:
                    for copied, source in zip(self.model.parameters(), self._source.parameters(), strict=True):
                        copied.copy_(source)
        self.version = version or self.version
        self._cohort = None
        self._distributions.clear()

    def sleep(self) -> None:
        """Free the key-value cache and known distributions; the next call computes what it needs again."""
        self._cohort = None
        self._distributions.clear()

    def generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        """Generate one completion per request."""
        if not requests:
            return []
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode(), _one_token_attention():
                if not self._recurring(requests, sampling):
                    return self._generate(requests, sampling, end_ids, store=False)
                completions = self._distributions.complete(requests, sampling, end_ids)
                pairs = zip(requests, completions, strict=True)
                new = [request for request, completion in pairs if completion is None]
                computed = iter(self._generate(new, sampling, end_ids, store=True) if new else ())
                return [next(computed) if completion is None else completion for completion in completions]
        except BaseException:
            self._cohort = None
            raise
        finally:
            self.model.train(training)

    # -- one call -----------------------------------------------------------------------------------------------------
    def _recurring(self, requests: Sequence[GenerationRequest], sampling: Sampling) -> bool:
        """Whether prompts may have been computed before: short completions of prompts that no cache continues.

        On a GPU a short completion takes less time than looking it up.
        """
        if self.device.type != "cpu" or self._vision or sampling.max_new_tokens > LONGEST:
            return False
        return self._cohort is None or self._cohort.continued_by(requests) is None

    def _generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int], *, store: bool
    ) -> list[Completion]:
        cohort, rows = self._place(requests), len(requests)
        logits, positions = self._read(cohort, requests)
        uniforms = np.stack([request.uniforms[: sampling.max_new_tokens] for request in requests])
        uniform = torch.from_numpy(uniforms).to(self.device)
        ends = torch.tensor(sorted(end_ids), device=self.device)
        running = torch.ones(rows, dtype=torch.bool, device=self.device)
        lengths = torch.zeros(rows, dtype=torch.long, device=self.device)
        for row, request in enumerate(requests):
            cohort.seen[row], cohort.picture_names[row] = len(request.ids), picture_names(request)
        position = torch.from_numpy(cohort.seen).to(self.device)
        ahead = (
            positions.amax((0, 2)) + 1 - position if self._vision else 0
        )  # a picture takes fewer positions than tokens
        tokens, logprobs, entropies = [], [], []
        sequences = [request.ids.tobytes() for request in requests] if store else []
        for step in range(sampling.max_new_tokens):
            for ids, row, runs in zip(sequences, logits, running.tolist(), strict=False):
                if runs:
                    self._distributions.store(ids, row)
            if step < sampling.entropies:
                entropies.append(entropy_of(logits, sampling))
            token, logprob = sample_tokens(logits, uniform[:, step], sampling)
            tokens.append(token)
            logprobs.append(logprob)
            sequences = [
                ids + np.int32(token_id).tobytes() for ids, token_id in zip(sequences, token.tolist(), strict=False)
            ]
            lengths += running
            running = running & ~torch.isin(token, ends)
            if step + 1 == sampling.max_new_tokens or not bool(running.any()):
                break
            following = (position + ahead)[:, None]
            if self._vision:
                following = following.expand(3, -1, -1)
            logits = self._forward_new(cohort, token[:, None], running[:, None], following)
            position = position + running
        cohort.seen = position.cpu().numpy()
        ids = torch.stack(tokens, 1).to(torch.int32).cpu().numpy()
        token_logprobs = torch.stack(logprobs, 1).float().cpu().numpy()
        counts = lengths.cpu().numpy()
        token_entropies = torch.stack(entropies, 1).cpu().numpy() if entropies else np.zeros((rows, 0), np.float32)
        for row, request in enumerate(requests):
            cohort.held[row] = np.concatenate([request.ids, ids[row, : counts[row]]])
        return [
            Completion(
                ids[row, : counts[row]].copy(),
                token_logprobs[row, : counts[row]].copy(),
                token_entropies[row, : counts[row]].copy(),
            )
            for row in range(rows)
        ]

    def _read(self, cohort: Cohort, requests: Sequence[GenerationRequest]) -> tuple[Any, Any]:
        """Run the model on all new tokens: logits (R, V) after the last ones, and their positions.

        Equal prompts of a new cohort are computed once: those of a group's first turn, and windowed prompts of the same state.
        """
        first: dict[tuple[Any, ...], int] = {}
        for number, request in enumerate(requests):
            first.setdefault((request.ids.tobytes(), picture_names(request)), number)
        if cohort.used or len(first) == len(requests):
            block, real, positions = self._block(cohort, requests)
            pictures = self._pictures(cohort, requests)
            return self._forward_new(cohort, block, real, positions, pictures), positions
        once = [requests[number] for number in first.values()]
        alone = replace(cohort, seen=cohort.seen[: len(once)], mask=cohort.mask[: len(once)])
        block, real, positions = self._block(alone, once)
        pictures = self._pictures(alone, once)
        logits = self._forward_new(alone, block, real, positions, pictures)
        number_of = {key: number for number, key in enumerate(first)}
        rows = torch.tensor(
            [number_of[request.ids.tobytes(), picture_names(request)] for request in requests], device=self.device
        )
        cohort.cache.batch_select_indices(rows)
        cohort.mask, cohort.used = alone.mask[rows], alone.used
        return logits[rows], positions[..., rows, :]

    def _place(self, requests: Sequence[GenerationRequest]) -> Cohort:
        """The cohort of these requests, whose rows are in their order."""
        cohort = self._cohort
        places = cohort.continued_by(requests) if cohort is not None else None
        if cohort is not None and places is not None:
            if places != list(range(len(cohort.seen))):
                cohort.keep(places, torch.tensor(places, device=self.device))
            return cohort
        rows = len(requests)
        self._cohort = Cohort(
            keys=[request.key for request in requests],
            seen=np.zeros(rows, np.int64),
            held=[np.zeros(0, np.int32)] * rows,
            picture_names=[()] * rows,
            mask=torch.zeros((rows, 0), dtype=torch.bool, device=self.device),
            used=0,
            cache=growing_cache(self.model.config),
        )
        return self._cohort

    def _block(self, cohort: Cohort, requests: Sequence[GenerationRequest]) -> tuple[Any, Any, Any]:
        """The new tokens, left-padded: ids, whether they are real, and positions, each (R, W); with vision positions (3, R, W)."""
        new_ids = [request.ids[seen:] for seen, request in zip(cohort.seen.tolist(), requests, strict=True)]
        width = max(map(len, new_ids))
        ids = np.zeros((len(cohort.seen), width), np.int64)
        real = np.zeros(ids.shape, np.bool_)
        positions = np.zeros((3, *ids.shape) if self._vision else ids.shape, np.int64)
        for row, (seen, new, request) in enumerate(zip(cohort.seen.tolist(), new_ids, requests, strict=True)):
            ids[row, width - len(new) :] = new
            real[row, width - len(new) :] = True
            of_row = rope_positions(request.ids, request.pictures) if self._vision else np.arange(seen + len(new))
            positions[..., row, width - len(new) :] = of_row[..., seen:]
        return tuple(torch.from_numpy(a).to(self.device) for a in (ids, real, positions))

    def _pictures(self, cohort: Cohort, requests: Sequence[GenerationRequest]) -> dict[str, Any]:
        """The pictures whose tokens are new, in the order of the rows."""
        rows = zip(cohort.seen.tolist(), requests, strict=True)
        new = [unseen_pictures(request.ids, request.pictures, seen) for seen, request in rows]
        return picture_tensors([picture for of_row in new for picture in of_row], self.device)

    def _forward_new(
        self, cohort: Cohort, ids: Any, real: Any, positions: Any, pictures: dict[str, Any] | None = None
    ) -> Any:
        """Run the model on (R, W) new tokens; returns float32 logits (R, V) after the last."""
        width = ids.shape[1]
        cohort.mask = torch.cat([cohort.mask, real], 1)
        slots = torch.arange(cohort.mask.shape[1], device=self.device)
        queries = torch.arange(cohort.used, cohort.used + width, device=self.device)
        past = slots[None, :] <= queries[:, None]
        itself = slots[None, :] == queries[:, None]  # padding attends to itself: a softmax over nothing is undefined
        visible = (cohort.mask[:, None, :] & past) | itself
        cohort.used += width
        return self._forward(ids, visible[:, None], positions, cohort.cache, **(pictures or {}))

    def _forward(self, ids: Any, visible: Any, positions: Any, cache: Any, **pictures: Any) -> Any:
        out = self.model(
            input_ids=ids,
            attention_mask=visible,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{CACHE_ARGUMENT: cache},
            **pictures,
        )
        return completion_logits(self.model, out.logits[:, -1].float())
