"""The ``transformers`` backend: our own batched loop over turns with a key-value cache that lives as long as episodes.

Episodes of one batch run in lockstep, so their caches do too: each call feeds only what is new since the last one
(the last sampled token and the next message), left-padded to one width, with explicit positions and a mask over cache
slots. Rows whose episode has ended are dropped. A row is only continued by ids that begin with those it holds; if one
request of a call does not (a windowed prompt, a new episode), all are computed from their whole ids, so the cache never
decides a result.

On a GPU ``cache="static"`` keeps shapes fixed (rows and slots in powers of two) so that the one-token step can be
compiled into one graph.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from transformers import DynamicCache, StaticCache

from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.backends.token_sampling import entropy_of, sample_tokens
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["TransformersBackend"]


@dataclass
class _Cohort:
    """Rows that share one cache.

    Attributes:
        keys: of the rows, in order; rows beyond them only fill up a static shape.
        seen: int64 (R,), tokens of each conversation that are in the cache.
        held: for each key, ids that begin with those ``seen`` tokens.
        mask: bool (R, S), which cache slots hold a token of the row; S grows with a dynamic cache.
        used: slots in use, ≤ S.
        cache: the model's.
    """

    keys: list[Hashable]
    seen: np.ndarray[Any, np.dtype[np.int64]]
    held: list[np.ndarray[Any, np.dtype[np.int32]]]
    mask: Any
    used: int
    cache: Any

    def continued_by(self, requests: Sequence[GenerationRequest]) -> list[int] | None:
        """Each request's row, if every request goes on with what a row of its own holds."""
        rows = {key: row for row, key in enumerate(self.keys)}
        places = [rows.get(request.key, -1) for request in requests]
        if -1 in places or len(set(places)) < len(places):
            return None
        for place, request in zip(places, requests, strict=True):
            seen = int(self.seen[place])
            if seen >= len(request.ids) or not np.array_equal(self.held[place][:seen], request.ids[:seen]):
                return None
        return places

    def keep(self, places: Sequence[int], rows: Any) -> None:
        """Drop all rows but these; ``rows`` are the same on the device."""
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]
        self.seen = self.seen[list(places)]
        self.keys, self.held = [self.keys[p] for p in places], [self.held[p] for p in places]


class TransformersBackend:
    """Samples from a causal language model of ``transformers``.

    Args:
        model: an instance; it is used as it is, and must be on its device.
        dtype: of the sampling copy, such as ``torch.bfloat16``; None samples from ``model`` itself. A copy has to be
            refreshed with ``sync()`` after every update.
        cache: "dynamic", or "static" for fixed shapes.
        compile: compile the one-token step (static cache only).
        version: names the weights in logs.

    Attributes:
        context: longest sequence that the model can take.
    """

    def __init__(
        self,
        model: Any,
        *,
        dtype: Any = None,
        cache: Literal["dynamic", "static"] = "dynamic",
        compile: bool = False,  # noqa: A002 - the word that torch uses
        version: str = "0",
    ) -> None:
        if cache not in ("dynamic", "static"):
            raise ConfigError(f"cache must be 'dynamic' or 'static', got {short_repr(cache)}")
        if compile and cache != "static":
            raise ConfigError("compile needs cache='static': a growing cache has no fixed shape")
        self._source = model
        first = next(model.parameters())
        self._copied = dtype is not None and dtype != first.dtype
        self.model = copy.deepcopy(model).to(dtype) if self._copied else model
        self.model.eval()
        self.device = first.device
        self.version = version
        self._static = cache == "static"
        config = model.config
        window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
        self.context = min(filter(None, (getattr(config, "max_position_embeddings", 0), window)), default=0)
        self.sync_numbers: dict[str, float] = {}
        self._cohort: _Cohort | None = None
        self._step = torch.compile(self._forward, mode="reduce-overhead") if compile else self._forward

    def sync(self, version: str = "") -> None:
        """Take over the source model's weights and forget what was computed with the old ones."""
        if self._copied:
            with torch.no_grad():
                for mine, theirs in zip(self.model.parameters(), self._source.parameters(), strict=True):
                    mine.copy_(theirs)
        self.version = version or self.version
        self._cohort = None

    def sleep(self) -> None:
        """Give the key-value cache back; the next call computes what it needs again."""
        self._cohort = None

    def generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        """One answer per request."""
        if not requests:
            return []
        trained = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                return self._generate(requests, sampling, end_ids)
        except BaseException:
            self._cohort = None
            raise
        finally:
            self.model.train(trained)

    # -- one call -----------------------------------------------------------------------------------------------------
    def _generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        cohort, places = self._seat(requests, sampling.max_new_tokens)
        rows = len(cohort.seen)
        block, real, positions = self._block(cohort, requests, places)
        logits = self._feed(cohort, block, real, positions, self._forward)
        self._check_length(cohort)
        draws = np.zeros((rows, sampling.max_new_tokens))
        draws[places] = [request.uniforms[: sampling.max_new_tokens] for request in requests]
        uniform = torch.from_numpy(draws).to(self.device)
        ends = torch.tensor(sorted(end_ids), device=self.device)
        going = torch.zeros(rows, dtype=torch.bool, device=self.device)
        going[torch.from_numpy(places).to(self.device)] = True
        lengths = torch.zeros(rows, dtype=torch.long, device=self.device)
        for place, request in zip(places.tolist(), requests, strict=True):
            cohort.seen[place] = len(request.ids)
        position = torch.from_numpy(cohort.seen).to(self.device)
        tokens, scores, unsure = [], [], []
        for step in range(sampling.max_new_tokens):
            if step < sampling.entropies:
                unsure.append(entropy_of(logits, sampling))
            token, score = sample_tokens(logits, uniform[:, step], sampling)
            tokens.append(token)
            scores.append(score)
            lengths += going
            going = going & ~torch.isin(token, ends)
            if step + 1 == sampling.max_new_tokens or not bool(going.any()):
                break
            logits = self._feed(cohort, token[:, None], going[:, None], position[:, None], self._step)
            position = position + going
        cohort.seen = position.cpu().numpy()
        ids = torch.stack(tokens, 1).to(torch.int32).cpu().numpy()
        logprobs = torch.stack(scores, 1).float().cpu().numpy()
        counts = lengths.cpu().numpy()
        entropies = torch.stack(unsure, 1).cpu().numpy() if unsure else np.zeros((rows, 0), np.float32)
        for p, request in zip(places.tolist(), requests, strict=True):
            cohort.held[p] = np.concatenate([request.ids, ids[p, : counts[p]]])
        return [
            Completion(ids[p, : counts[p]].copy(), logprobs[p, : counts[p]].copy(), entropies[p, : counts[p]].copy())
            for p in places.tolist()
        ]

    def _seat(
        self, requests: Sequence[GenerationRequest], room: int
    ) -> tuple[_Cohort, np.ndarray[Any, np.dtype[np.int64]]]:
        """The cohort that serves these requests, and each request's row in it."""
        cohort = self._cohort
        places = cohort.continued_by(requests) if cohort is not None else None
        if cohort is not None and places is not None:
            if not self._static:
                if places != list(range(len(cohort.seen))):
                    cohort.keep(places, torch.tensor(places, device=self.device))
                return cohort, np.arange(len(requests))
            width = max(
                len(request.ids) - int(cohort.seen[place]) for place, request in zip(places, requests, strict=True)
            )
            if cohort.used + width + room <= cohort.mask.shape[1] and 2 * len(requests) > len(cohort.seen):
                return cohort, np.array(places, np.int64)
        return self._fresh(requests, room), np.arange(len(requests))

    def _fresh(self, requests: Sequence[GenerationRequest], room: int) -> _Cohort:
        width = max(len(request.ids) for request in requests)
        rows, slots = len(requests), 0
        if self._static:
            rows, slots = _power_of_two(rows), _power_of_two(2 * width + room)
            cache: Any = StaticCache(config=self.model.config, max_cache_len=slots)
        else:
            cache = DynamicCache(config=self.model.config)
        self._cohort = _Cohort(
            keys=[request.key for request in requests],
            seen=np.zeros(rows, np.int64),
            held=[np.zeros(0, np.int32)] * rows,
            mask=torch.zeros((rows, slots), dtype=torch.bool, device=self.device),
            used=0,
            cache=cache,
        )
        return self._cohort

    def _block(self, cohort: _Cohort, requests: Sequence[GenerationRequest], places: Any) -> tuple[Any, Any, Any]:
        """What is new, left-padded: ids, which are real, and positions, each (R, W)."""
        news = [request.ids[int(cohort.seen[place]) :] for place, request in zip(places, requests, strict=True)]
        width = max(map(len, news))
        ids = np.zeros((len(cohort.seen), width), np.int64)
        real = np.zeros(ids.shape, np.bool_)
        positions = np.zeros(ids.shape, np.int64)
        for place, new in zip(places.tolist(), news, strict=True):
            ids[place, width - len(new) :] = new
            real[place, width - len(new) :] = True
            positions[place, width - len(new) :] = np.arange(cohort.seen[place], cohort.seen[place] + len(new))
        return tuple(torch.from_numpy(a).to(self.device) for a in (ids, real, positions))

    def _feed(self, cohort: _Cohort, ids: Any, real: Any, positions: Any, forward: Any) -> Any:
        """Run the model on (R, W) new tokens; returns float32 logits (R, V) after the last."""
        width = ids.shape[1]
        if self._static:
            cohort.mask[:, cohort.used : cohort.used + width] = real
        else:
            cohort.mask = torch.cat([cohort.mask, real], 1)
        slots = torch.arange(cohort.mask.shape[1], device=self.device)
        queries = torch.arange(cohort.used, cohort.used + width, device=self.device)
        past = slots[None, :] <= queries[:, None]
        itself = slots[None, :] == queries[:, None]  # padding looks at itself: a row of nothing has no softmax
        visible = (cohort.mask[:, None, :] & past) | itself
        cohort.used += width
        return forward(ids, visible[:, None], positions, cohort.cache)

    def _check_length(self, cohort: _Cohort) -> None:
        """Before 5.4, transformers counts a static cache's slots whose key is not zero: padding may have zero keys."""
        if self._static and (length := int(cohort.cache.get_seq_length())) != cohort.used:
            raise ConfigError(
                f"the static cache of this transformers release counts {length} tokens where it was given {cohort.used}, so it "
                "would write over them; install transformers 5.4 or newer, or use cache='dynamic'"
            )

    def _forward(self, ids: Any, visible: Any, positions: Any, cache: Any) -> Any:
        out = self.model(
            input_ids=ids,
            attention_mask=visible,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1].float()


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
