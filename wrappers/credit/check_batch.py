"""``check_batch``: does the credit of one training step reach the loss, on the tokens that were sampled, and is it the scheme one thinks?

A trainer's faults of credit raise no exception: an index of the wrong row, a mask that is shifted by one token, a mean over rows
instead of episodes. They show in the arrays that enter the loss, whatever the trainer. Each check below reads these arrays and
returns a finding or nothing. An **error** cannot be meant. A **warning** is a choice that some trainers make on purpose and that
changes what is learned. An **info** is a number to know.

>>> report = check_batch(np.array([[0.0, 1.0, 1.0], [0.0, -1.0, -1.0]]), np.array([[1, 1, 0], [1, 1, 0]]))
>>> [(finding.name, finding.severity) for finding in report.findings]
[('shifted_mask', 'error'), ('mass_outside_mask', 'error'), ('zeros_on_sampled_tokens', 'warning')]
>>> check_batch([1.0, -1.0], np.array([[0, 1], [1, 1]]), groups=[0, 0], rewards=[1.0, 0.0]).scheme
'grpo'
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, check_name, short_repr
from creditflow.wrappers.credit.bridge import numbers

__all__ = ["BatchReport", "Finding", "Loss", "check_batch"]

Severity = Literal["error", "warning", "info"]
Loss = Literal["token", "sequence", "constant"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

FIRST_ROWS: Final = 5  # rows that a finding lists
LONGEST_SHIFT: Final = 8  # tokens by which a shifted mask is looked for
NOISE: Final = 1e-6  # relative to the largest number: differences below it are rounding of float32
FIT: Final = 1e-3  # relative: what eps in a deviation changes, and bfloat16 does not hide
WIDTH: Final = 80

TEXTS: Final = {  # name: what it means, how to mend it
    "not_finite": (
        "A sampled token's number is NaN or infinite, so the loss is too.",
        "Look for a division by a deviation of 0 or an empty mean.",
    ),
    "not_finite_outside_mask": (
        "A number that is not finite stands where nothing is trained; 0 times NaN is NaN, so means and sums over the mask are NaN.",
        "Select with where(mask, x, 0) before you sum, instead of multiplying by the mask.",
    ),
    "empty_mask": ("No token is trained.", "Compare the mask with the tokens that were sampled."),
    "carries_another_rows_mask": (
        "The numbers stand where another row of the same episode was sampled, so they were copied with that row's mask.",
        "Take one number per episode before masking, copy it to the episode's rows, then apply each row's own mask.",
    ),
    "shifted_mask": (
        "The numbers stand on the mask shifted by {0:+d} token(s).",
        "Use one convention of targets: logits at t predict token t + 1.",
    ),
    "mass_outside_mask": (
        "Tokens that nobody sampled (prompt, environment, padding) have a number.",
        "Multiply by the mask of sampled tokens after the last step that writes advantages.",
    ),
    "zeros_on_sampled_tokens": (
        "Sampled tokens of episodes that have credit have the number 0 and learn nothing.",
        "If the scheme does not mean it, follow one such row back to where its number was written.",
    ),
    "all_zero": (
        "Every sampled token has the number 0, so this step learns nothing.",
        "See the groups: their size, and whether rewards differ within them.",
    ),
    "groups_of_one": (
        "A group of one episode has nothing to compare with: its own mean is its reward.",
        "Group by the task and not by the episode, or sample several episodes of each task.",
    ),
    "turn_boundary_shifted": (
        "A turn's first or last tokens have the number of the turn beside it.",
        "Compare the offsets of turns with the first token that was sampled, not with the first of the template.",
    ),
    "turns_share_one_number": (
        "Turns have rewards of their own, and all turns of an episode have one number.",
        "Normalise each turn's own number, or use a scheme of one number per episode on purpose.",
    ),
    "long_episodes_count_more": (
        "Mean and deviation of a group were taken over rows, so an episode with more turns counts more often.",
        "Take them over episodes: one row of each.",
    ),
    "centred_per_turn_index": (
        "Numbers have mean 0 for each turn index, although episodes end at different turns: to reach a late turn costs or earns nothing.",
        "Use one baseline per group, or per state: the policy decides how many turns there are.",
    ),
    "groups_mixed": (
        "Rows of one group begin with different prompts.",
        "Group by the task, and keep the order of rows when a batch is shuffled or split.",
    ),
    "constant_groups": (
        "All rewards of a group are equal, so comparing its outcomes teaches nothing.",
        "Sample such groups again, or choose tasks of another difficulty.",
    ),
    "whitened_constant_groups": (
        "A second normalisation, over the batch, moved groups with equal rewards away from 0.",
        "Normalise once; if you scale over the batch, do not subtract its mean.",
    ),
    "unfinished_rows_shift_mean": (
        "Rows without an end that are not trained still count in their group's mean.",
        "Leave them out before the statistics, or train them too.",
    ),
    "wrong_sign": (
        "The numbers are those of {0} with the opposite sign.",
        "Check whether a cost was taken for a reward, or a loss for an objective.",
    ),
    "departs_from": (
        "The numbers resemble {0} and depart from it in the rows named.",
        "Compute the group of the first such row by hand.",
    ),
    "stop_not_trained": (
        "The token that ends a turn was sampled and is left out of the mask, so the policy does not learn when to stop.",
        "Count the end token as sampled where the model wrote it.",
    ),
    "clipped": (
        "The clip removes these tokens' gradient.",
        "More than a fifth means a large step or two engines that disagree: compare their log-probabilities.",
    ),
    "weight_by_length": (
        "Under this average of the loss {0}",
        "Choose the average on purpose; a constant divisor keeps the sum of advantages.",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the arrays show.

    Attributes:
        name: a key of ``TEXTS``.
        severity: "error", "warning" or "info".
        share: how much of the batch it concerns, in (0, 1].
        unit: what the share counts: "tokens", "rows", "groups", "turns" or "weight".
        rows: the first rows that show it, ascending.
        meaning, remedy: one sentence each.
    """

    name: str
    severity: Severity
    share: float
    unit: str
    rows: tuple[int, ...]
    meaning: str
    remedy: str


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What ``check_batch`` found; as text a table of at most 80 columns.

    Attributes:
        findings: errors first.
        rows, tokens, groups: sizes of the batch; ``tokens`` are those that are trained, ``groups`` 0 if none were given.
        scheme: the outcome scheme that the numbers equal up to one factor, or "" (none, or no rewards and groups were given).
        factor: that factor, or 0.
    """

    findings: tuple[Finding, ...]
    rows: int
    tokens: int
    groups: int
    scheme: str = ""
    factor: float = 0.0

    @property
    def errors(self) -> tuple[str, ...]:
        """Names of the findings that must be mistakes."""
        return tuple(finding.name for finding in self.findings if finding.severity == "error")

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        counts = [sum(finding.severity == level for finding in self.findings) for level in get_args(Severity)]
        verdict = "no error" if not counts[0] else f"{counts[0]} error" + "s" * (counts[0] > 1)
        equal = f"equals {self.scheme} times {self.factor:.4g}" if self.scheme else "equals no known outcome scheme"
        lines = [
            f"{verdict}, {counts[1]} warning{'s' * (counts[1] != 1)}, {counts[2]} info",
            f"{self.rows:,} rows, {self.tokens:,} trained tokens, {self.groups:,} groups; {equal}",
        ]
        if self.findings:
            lines += ["", f"{'finding':26} {'severity':8} {'share':>14}  rows", "-" * 66]
        for each in self.findings:
            rows = ", ".join(map(str, each.rows))
            lines.append(f"{each.name:26} {each.severity:8} {f'{each.share:.1%} {each.unit}':>14}  {rows}")
        for each in self.findings:
            texts = textwrap.wrap(f"{each.name}: {each.meaning} {each.remedy}", WIDTH, subsequent_indent="  ")
            lines += ["", *texts]
        return "\n".join(lines)


def check_batch(
    advantages: Any,
    mask: Any,
    *,
    ids: Any = None,
    groups: Any = None,
    trajectories: Any = None,
    rewards: Any = None,
    turn_rewards: Any = None,
    turns: Any = None,
    logprobs: Any = None,
    old_logprobs: Any = None,
    clip: Any = (0.2, 0.2),
    eos: int | None = None,
    attention: Any = None,
    loss: Loss = "token",
) -> BatchReport:
    """Check the arrays of one training step. Tensors and lists are accepted; every optional one makes more checks possible.

    Args:
        advantages: float (B, T), what the loss multiplies; or (B,), one number per row, which is put on its sampled tokens.
        mask: bool (B, T), the tokens that the loss trains on.
        ids: int (B, T), token ids.
        groups: (B,), names or numbers of the groups that are compared.
        trajectories: (B,), the episode of each row within its group. Rows of one episode share it. Default: every row is an episode.
        rewards: float (B,), final reward of the row's episode.
        turn_rewards: float (B,), reward of the row's own turn, where a row is a turn.
        turns: int (B, T), index of the turn of each token, or -1.
        logprobs, old_logprobs: float (B, T), log-probabilities of the tokens now and when they were sampled.
        clip: two numbers: the ratio is clipped to [1 − low, 1 + high].
        eos: id of the token that ends a completion.
        attention: bool (B, T), tokens that are no padding.
        loss: how the loss averages: "token" (over all tokens), "sequence" (over each row, then over rows) or "constant" (a
            sum over a constant).

    Raises:
        DataError: shapes or values that do not fit together.
        ConfigError: an unknown ``loss``.
    """
    check_name("average of the loss", loss, get_args(Loss))
    trained = _flags("mask", mask)
    table = numbers(advantages)
    if table.ndim == 1 and len(table) == len(trained):
        table = np.where(trained, table[:, None], 0.0)
    optional = {
        "ids": ids,
        "turns": turns,
        "logprobs": logprobs,
        "old_logprobs": old_logprobs,
        "attention": attention,
        "groups": groups,
        "trajectories": trajectories,
        "rewards": rewards,
        "turn_rewards": turn_rewards,
    }
    arrays = {name: _optional(name, value, trained.shape) for name, value in optional.items()}
    if table.shape != trained.shape:
        raise DataError(
            f"advantages: expected the shape of the mask, {trained.shape}, or ({len(trained)},), got {table.shape}"
        )
    limits = numbers(clip)
    if limits.shape != (2,) or not (np.isfinite(limits) & (limits >= 0)).all():
        raise DataError(f"clip: expected two numbers low and high of at least 0, got {short_repr(clip)}")
    batch = _Batch(table, trained, arrays, (float(limits[0]), float(limits[1])), eos, loss)
    order = {severity: place for place, severity in enumerate(get_args(Severity))}
    found = [finding for check in CHECKS if (finding := check(batch)) is not None]
    found.sort(key=lambda finding: order[finding.severity])  # stable: within a severity in the order of CHECKS
    scheme, factor = batch.scheme if batch.scheme[1] > 0 else ("", 0.0)
    return BatchReport(
        tuple(found), len(trained), int(trained.sum()), batch.n_groups if groups is not None else 0, scheme, factor
    )


def _flags(name: str, values: Any) -> Flags:
    table = numbers(values)
    if table.ndim != 2 or not table.size:
        raise DataError(
            f"{name}: expected an array of rows and tokens (B, T) that is not empty, got the shape {table.shape}"
        )
    if not ((table == 0) | (table == 1)).all():
        raise DataError(f"{name}: expected true and false, or 1 and 0")
    return table.astype(np.bool_)


def _optional(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """An array of a row or a token, checked and in one type: integers, floats, flags, or numbers from 0 that stand for names."""
    if values is None:
        return None
    expected = shape[:1] if name in ("groups", "trajectories", "rewards", "turn_rewards") else shape
    if name in ("groups", "trajectories"):
        names = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
        table: NDArray[Any] = np.unique(names.astype(str), return_inverse=True)[1].reshape(names.shape)
    elif name == "attention":
        table = _flags(name, values)
    else:
        table = numbers(values)
        if name in ("ids", "turns"):
            if not np.array_equal(table, np.round(table)):
                raise DataError(f"{name}: expected integers")
            table = table.astype(np.int64)
    if table.shape != expected:
        raise DataError(f"{name}: expected the shape {expected}, got {table.shape}")
    if name in ("rewards", "turn_rewards") and not np.isfinite(table).all():
        raise DataError(f"{name}: expected finite numbers")
    return table


def _sums(labels: Integers, values: Any, count: int) -> Floats:
    sums: Floats = np.bincount(labels, np.asarray(values, np.float64), count).astype(np.float64)
    return sums


def _extremes(labels: Integers, values: Floats, count: int) -> tuple[Floats, Floats]:
    """Smallest and largest value of each label; inf and -inf where there is none."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, labels, values)
    np.maximum.at(high, labels, values)
    return low, high


class _Batch:
    """The arrays, and what several checks need of them. G groups, E episodes; an episode's id counts within its group.

    Attributes:
        a: float64 (B, T), advantages, with 0 where they are not finite.
        mask, support: bool (B, T): trained, and not 0.
        sizes: int (B,), trained tokens.
        noise: differences of numbers below it are rounding.
        group, episode: int (B,); ``group_of`` int (E,).
        rows_of: (E,), number of rows of each episode.
        row_number, number: (B,) and (E,): the one number on all sampled tokens of a row or an episode, or NaN.
        reward: (E,) or None.
    """

    def __init__(
        self,
        advantages: Floats,
        mask: Flags,
        arrays: dict[str, NDArray[Any] | None],
        clip: tuple[float, float],
        eos: int | None,
        loss: Loss,
    ) -> None:
        self.arrays, self.clip, self.eos, self.loss, self.mask = arrays, clip, eos, loss, mask
        self.finite = np.isfinite(advantages)
        self.a = np.where(self.finite, advantages, 0.0)
        self.support = self.a != 0
        self.sizes = mask.sum(1)
        self.noise = NOISE * float(np.abs(self.a).max())
        count = len(mask)
        groups = arrays["groups"]
        self.group: Integers = np.zeros(count, np.int64) if groups is None else groups
        self.n_groups = int(self.group.max()) + 1
        names = arrays["trajectories"]
        names = np.arange(count) if names is None else names
        keys, self.episode = np.unique(self.group * (int(names.max()) + 1) + names, return_inverse=True)
        self.n_episodes = len(keys)
        self.group_of: Integers = keys // (int(names.max()) + 1)
        self.rows_of = np.bincount(self.episode)
        low, high = np.where(mask, self.a, np.inf).min(1), np.where(mask, self.a, -np.inf).max(1)
        self.row_number = self._one(low, high)
        trained = self.sizes > 0
        self.number = self._one(
            _extremes(self.episode[trained], low[trained], self.n_episodes)[0],
            _extremes(self.episode[trained], high[trained], self.n_episodes)[1],
        )
        self.reward: Floats | None = None
        if (rewards := arrays["rewards"]) is not None:
            least, most = _extremes(self.episode, rewards, self.n_episodes)
            if (most > least).any():
                row = int(np.argmax((most > least)[self.episode]))
                raise DataError(
                    f"rewards: the rows of the episode of row {row} have different ones; expected the episode's final reward in "
                    "each, and the reward of a row's own turn in turn_rewards"
                )
            self.reward = most
        self.last: Integers = (
            mask.shape[1] - 1 - np.argmax(mask[:, ::-1], 1)
        )  # last trained token; T - 1 where there is none
        self.scheme, self.departing = ("", 0.0), np.zeros(count, np.bool_)
        self.nearest = ""
        if groups is not None and self.reward is not None:
            _fit(self, self.reward)

    def _one(self, low: Floats, high: Floats) -> Floats:
        with np.errstate(invalid="ignore"):  # inf - inf where nothing is trained
            return np.where(high - low <= self.noise, low, np.nan)

    @property
    def grouped(self) -> bool:
        return self.arrays["groups"] is not None

    @property
    def constant(self) -> Flags:
        """bool (G,): groups of at least two episodes with equal rewards; False without rewards."""
        if self.reward is None or not self.grouped:
            return np.zeros(self.n_groups, np.bool_)
        low, high = _extremes(self.group_of, self.reward, self.n_groups)
        equal: Flags = low == high
        return equal & (self.group_sizes > 1)

    @property
    def group_sizes(self) -> Integers:
        return np.bincount(self.group_of, minlength=self.n_groups)

    def finished(self) -> Flags:
        """bool (B,): the end token is the last trained one or comes right after it; all True without ids or end token."""
        ids = self.arrays["ids"]
        if ids is None or self.eos is None:
            return np.ones(len(self.mask), np.bool_)
        rows, after = np.arange(len(self.mask)), np.minimum(self.last + 1, self.mask.shape[1] - 1)
        finished: Flags = (ids[rows, self.last] == self.eos) | (ids[rows, after] == self.eos)
        return finished

    def finding(
        self, name: str, severity: Severity, where: Flags, total: Any = None, unit: str = "tokens", *details: Any
    ) -> Finding | None:
        """A finding about tokens (B, T), rows (B,) or others (with the rows that show them in ``total[1]``); None if there is none."""
        if unit in ("tokens", "rows"):
            rows, counted = where.reshape(len(self.mask), -1).any(1), int(np.sum(total))
        else:
            counted, rows = total
        if not where.any():
            return None
        meaning, remedy = TEXTS[name]
        share = float(where.sum() / max(counted, 1))
        return Finding(
            name,
            severity,
            share,
            unit,
            tuple(np.flatnonzero(rows)[:FIRST_ROWS].tolist()),
            meaning.format(*details),
            remedy,
        )

    def of_groups(self, name: str, severity: Severity, where: Flags) -> Finding | None:
        """A finding about groups, bool (G,)."""
        return self.finding(name, severity, where, (self.n_groups, where[self.group]), "groups")


def _fit(batch: _Batch, reward: Floats) -> None:
    """Which outcome scheme the numbers equal up to one factor, and where the nearest one departs.

    Over the episodes of a group with rewards r: grpo (r − mean) / std, grpo without std r − mean, rloo r − mean of the others,
    and r − mean of the batch (divided by one deviation or not: a factor). Rows of an episode that is not trained still count.
    """
    group = batch.group_of
    size = batch.group_sizes[group]
    mean = (_sums(group, reward, batch.n_groups) / np.maximum(batch.group_sizes, 1))[group]
    centred = np.where(batch.constant[group] | (size == 1), 0.0, reward - mean)
    squares = _sums(group, centred**2, batch.n_groups)[group]
    std = np.sqrt(squares / np.maximum(size - 1, 1))
    candidates = {
        "grpo": np.divide(centred, std, out=np.zeros_like(std), where=std > 0),
        "grpo without std": centred,
        "rloo": centred * size / np.maximum(size - 1, 1),
        "centring over the batch": reward - reward.mean(),
    }
    # unfinished rows with 0 are not trained, so no scheme need explain their 0
    zero = ~(batch.support & batch.mask).any(1) & ~batch.finished()
    trained = np.isfinite(batch.number) & ~(_sums(batch.episode, zero, batch.n_episodes) > 0)
    # numbers that differ within an episode are no outcome scheme's
    several = _sums(batch.episode, batch.sizes, batch.n_episodes) > 0
    if (several & ~np.isfinite(batch.number)).any() or not trained.any():
        return
    number = batch.number[trained]
    best, distance = "", np.inf
    for name, scores in candidates.items():
        score = scores[trained]
        moved = np.abs(score) > FIT * max(np.abs(score).max(), 1e-300)
        if not moved.any():
            continue
        # the median is the factor of most episodes, so that a few wrong ones do not hide which they are
        factor = float(np.median(number[moved] / score[moved]))
        error = np.abs(number - factor * score)
        departs = error > FIT * max(np.abs(number).max(), 1e-300)
        if factor and not departs.any():
            batch.scheme = (name, factor)
            batch.nearest, batch.departing = name, np.zeros(len(batch.mask), np.bool_)
            return
        if departs.mean() < distance:
            best, distance = name, float(departs.mean())
            wrong = np.zeros(batch.n_episodes, np.bool_)
            wrong[np.flatnonzero(trained)[departs]] = True
            batch.departing = wrong[batch.episode]
    batch.nearest = best


def _not_finite(batch: _Batch) -> Finding | None:
    return batch.finding("not_finite", "error", ~batch.finite & batch.mask, batch.sizes)


def _not_finite_outside_mask(batch: _Batch) -> Finding | None:
    severity: Severity = "error" if (~batch.finite & ~batch.mask).any() else "warning"
    where = ~batch.finite
    for name in ("logprobs", "old_logprobs"):
        if (table := batch.arrays[name]) is not None:
            where = where | ~np.isfinite(table)
    return batch.finding("not_finite_outside_mask", severity, where & ~batch.mask, ~batch.mask)


def _empty_mask(batch: _Batch) -> Finding | None:
    return batch.finding("empty_mask", "error", ~batch.mask & ~batch.mask.any(), batch.mask.size)


def _carried(batch: _Batch) -> Flags:
    """bool (B,): rows whose numbers stand exactly on the mask of another row of their episode."""
    carried = np.zeros(len(batch.mask), np.bool_)
    # a row can only carry a mask of as many tokens; equal packed bits are equal masks
    support, masks = np.packbits(batch.support, axis=1), np.packbits(batch.mask, axis=1)
    suspects = batch.support.any(1) & (support != masks).any(1) & (batch.rows_of[batch.episode] > 1)
    of_episode: dict[int, set[bytes]] = {}
    for row in np.flatnonzero(np.isin(batch.episode, batch.episode[suspects])).tolist():
        of_episode.setdefault(int(batch.episode[row]), set()).add(masks[row].tobytes())
    for row in np.flatnonzero(suspects).tolist():
        carried[row] = support[row].tobytes() in of_episode[int(batch.episode[row])]
    return carried


def _carries_another_rows_mask(batch: _Batch) -> Finding | None:
    return batch.finding("carries_another_rows_mask", "error", _carried(batch), len(batch.mask), "rows")


def _shifted(table: Flags, by: int) -> Flags:
    out = np.zeros_like(table)
    if by > 0:
        out[:, by:] = table[:, :-by]
    else:
        out[:, :by] = table[:, -by:]
    return out


def _shifted_mask(batch: _Batch) -> Finding | None:
    """Numbers outside the mask that all lie in the shifted mask, or numbers that were masked twice: by both."""
    off = (batch.support != batch.mask).any(1) & batch.support.any(1) & ~_carried(batch)
    if not off.any():
        return None
    rows = np.flatnonzero(off)
    support, mask = batch.support[rows], batch.mask[rows]
    outside = (support & ~mask).any(1)
    # without numbers outside, only a run of sampled tokens (of a turn) that is credited in part is evidence: a turn may have 0
    in_part = mask[:, 1:] & mask[:, :-1] & (support[:, 1:] != support[:, :-1])
    if (turns := batch.arrays["turns"]) is not None:
        in_part &= turns[rows, 1:] == turns[rows, :-1]
    split = in_part.any(1)
    for by in sorted(range(-LONGEST_SHIFT, LONGEST_SHIFT + 1), key=abs):
        if not 0 < abs(by) < mask.shape[1]:
            continue
        moved = _shifted(mask, by)
        explained = np.where(outside, ~(support & ~moved).any(1), split & (support == (mask & moved)).all(1))
        # one row may end in zeros by chance: most rows that have numbers must agree
        if explained.mean() >= 0.9 and explained.sum() * 2 >= batch.support.any(1).sum():
            where = np.zeros(len(off), np.bool_)
            where[rows[explained]] = True
            return batch.finding("shifted_mask", "error", where, len(off), "rows", by)
    return None


def _mass_outside_mask(batch: _Batch) -> Finding | None:
    where = batch.support & ~batch.mask
    if not where.any():
        return None
    # one number on every token of each row is a broadcast, which a loss that multiplies by the mask never sees
    broadcast = ((batch.a.max(1) - batch.a.min(1)) <= batch.noise).all()
    return batch.finding("mass_outside_mask", "warning" if broadcast else "error", where, batch.support)


def _zeros_on_sampled_tokens(batch: _Batch) -> Finding | None:
    credited = _sums(batch.episode, batch.support.any(1), batch.n_episodes) > 0
    in_credited = batch.mask & credited[batch.episode][:, None]
    where = in_credited & ~batch.support & batch.finite
    if not where.any():
        return None
    # every number of a row beside its mask; one credited turn of several is what sparse schemes give
    lost = batch.support.any(1) & ~(batch.support & batch.mask).any(1) & (batch.sizes > 0)
    severity: Severity = "warning" if where.sum() * 2 >= in_credited.sum() else "info"
    if lost.any():
        severity = "error"
    return batch.finding("zeros_on_sampled_tokens", severity, where, in_credited)


def _differing(batch: _Batch) -> bool:
    """Whether an outcome scheme would have had something to compare: rewards that differ within a group, or between groups of one."""
    if batch.reward is None or not batch.grouped:
        return False
    low, high = _extremes(batch.group_of, batch.reward, batch.n_groups)
    alone = batch.group_sizes == 1
    return bool((high > low).any() or (alone.all() and np.ptp(low) > 0))


def _all_zero(batch: _Batch) -> Finding | None:
    if (batch.support & batch.mask).any() or not batch.finite.all():
        return None
    return batch.finding("all_zero", "error" if _differing(batch) else "warning", batch.mask, batch.mask)


def _groups_of_one(batch: _Batch) -> Finding | None:
    if not batch.grouped:
        return None
    alone = batch.group_sizes == 1
    dead = not (batch.support & batch.mask).any()
    severity: Severity = "error" if alone.all() and dead and _differing(batch) else "warning"
    return batch.of_groups("groups_of_one", severity, alone)


def _turn_boundary_shifted(batch: _Batch) -> Finding | None:
    """Turns of exactly two numbers, whose first or last tokens carry the neighbour's."""
    turns = batch.arrays["turns"]
    if turns is None:
        return None
    rows, columns = np.nonzero(batch.mask & (turns >= 0))
    if not len(rows):
        return None
    turn, values = turns[rows, columns], batch.a[rows, columns]
    begins = np.r_[True, (np.diff(rows) != 0) | (np.diff(turn) != 0)]
    start = np.flatnonzero(begins)
    stop = np.r_[start[1:], len(rows)]
    changes = np.r_[False, np.abs(np.diff(values)) > batch.noise] & ~begins
    two = np.add.reduceat(changes, start) == 1
    first, last = values[start], values[stop - 1]
    beside = rows[start][1:] == rows[start][:-1]  # turn s + 1 is in the row of turn s
    # a number of 0 is no evidence: schemes that credit single tokens leave many zeros side by side
    late = np.r_[False, beside & (np.abs(first[1:] - last[:-1]) <= batch.noise) & (last[:-1] != 0)]
    early = np.r_[beside & (np.abs(last[:-1] - first[1:]) <= batch.noise) & (first[1:] != 0), False]
    where = two & (late | early)
    shown = np.zeros(len(batch.mask), np.bool_)
    shown[rows[start][where]] = True
    return batch.finding("turn_boundary_shifted", "error", where, (len(start), shown), "turns")


def _ordered_alike(values: Floats, other: Floats, group: Integers, noise: float) -> bool:
    """Whether within each group both order the entries in the same way, ties included."""
    order = np.lexsort((other, values, group))
    same = np.diff(group[order]) == 0
    larger = np.diff(values[order]) > NOISE * max(float(np.abs(values).max()), 1e-300)
    return bool(((np.diff(other[order]) > noise) == larger)[same].all())


def _turns_share_one_number(batch: _Batch) -> Finding | None:
    turn_rewards = batch.arrays["turn_rewards"]
    if turn_rewards is None:
        return None
    several = batch.rows_of > 1
    low, high = _extremes(batch.episode, turn_rewards, batch.n_episodes)
    # one reward at the end of an episode is an outcome; two are rewards of turns
    rewarded = several & (high > low) & (_sums(batch.episode, turn_rewards != 0, batch.n_episodes) > 1)
    has_number = np.isfinite(batch.number)
    if not rewarded.any() or not has_number[several].all() or not batch.number[rewarded].any():
        return None
    sums = _sums(batch.episode, turn_rewards, batch.n_episodes)
    outcomes = [sums] if batch.reward is None else [sums, batch.reward]
    meant = any(
        _ordered_alike(each[has_number], batch.number[has_number], batch.group_of[has_number], batch.noise)
        for each in outcomes
    )
    where = rewarded[batch.episode]
    return batch.finding("turns_share_one_number", "warning" if meant else "error", where, len(where), "rows")


def _near_zero(sums: Floats, sizes: Floats) -> Flags:
    """Whether sums are 0, given the sums of the sizes of their terms."""
    return np.abs(sums) <= FIT * sizes


def _long_episodes_count_more(batch: _Batch) -> Finding | None:
    if not batch.grouped or batch.n_episodes == len(batch.mask):
        return None
    number = np.nan_to_num(batch.number)
    plain = _sums(batch.group_of, np.isnan(batch.number), batch.n_groups) == 0
    by_rows = _near_zero(
        _sums(batch.group_of, number * batch.rows_of, batch.n_groups),
        _sums(batch.group_of, np.abs(number) * batch.rows_of, batch.n_groups),
    )
    by_episodes = _near_zero(
        _sums(batch.group_of, number, batch.n_groups), _sums(batch.group_of, np.abs(number), batch.n_groups)
    )
    return batch.of_groups("long_episodes_count_more", "warning", plain & by_rows & ~by_episodes)


def _centred_per_turn_index(batch: _Batch) -> Finding | None:
    turns = batch.arrays["turns"]
    has_number = np.isfinite(batch.number) | (_sums(batch.episode, batch.sizes, batch.n_episodes) == 0)
    if turns is None or not batch.grouped or has_number.all():  # one number per episode has no baseline per turn
        return None
    rows, columns = np.nonzero(batch.mask & (turns >= 0))
    if not len(rows):
        return None
    turn = turns[rows, columns]
    width = int(turn.max()) + 1
    # the mean over a turn's tokens, then over the group's episodes that have the turn
    keys, entry = np.unique(batch.episode[rows] * width + turn, return_inverse=True)
    number = _sums(entry, batch.a[rows, columns], len(keys)) / np.bincount(entry)
    cell = batch.group_of[keys // width] * width + keys % width
    total, size = _sums(cell, number, batch.n_groups * width), _sums(cell, np.abs(number), batch.n_groups * width)
    count = np.bincount(cell, minlength=batch.n_groups * width).reshape(batch.n_groups, width)
    centred = _near_zero(total, size).reshape(batch.n_groups, width)
    late = (count > 1) & (count < count.max(1, keepdims=True)) & (size.reshape(count.shape) > batch.noise)
    where = late.any(1)
    return batch.of_groups("centred_per_turn_index", "warning", where) if centred.all() else None


def _groups_mixed(batch: _Batch) -> Finding | None:
    """Compares the prompts of a group as far as its shortest goes. Later rows of an episode begin with its history, so they are left out."""
    ids, turns, attention = batch.arrays["ids"], batch.arrays["turns"], batch.arrays["attention"]
    if ids is None or not batch.grouped:
        return None
    first = np.argmax(batch.mask, 1)
    opening = batch.sizes > 0
    if turns is None:
        opening &= batch.rows_of[batch.episode] == 1
    else:  # a first turn that is not trained leaves sampled tokens before the mask
        opening &= turns[np.arange(len(ids)), first] == 0
    begin = np.zeros(len(ids), np.int64) if attention is None else np.argmax(attention, 1)
    length = np.where(opening, np.maximum(first - begin, 0), np.iinfo(np.int64).max)
    shortest = np.full(batch.n_groups, np.iinfo(np.int64).max)
    np.minimum.at(shortest, batch.group, length)
    shortest = np.minimum(shortest, ids.shape[1])
    reference = np.zeros(batch.n_groups, np.int64)
    reference[batch.group[opening][::-1]] = np.flatnonzero(opening)[::-1]  # the first opening row of each group
    rows = np.flatnonzero(opening)
    if not len(rows) or not (width := int(shortest[batch.group[rows]].max())):
        return None
    columns = np.arange(width)
    mine = ids[rows[:, None], np.minimum(begin[rows][:, None] + columns, ids.shape[1] - 1)]
    first_row = reference[batch.group[rows]]
    theirs = ids[first_row[:, None], np.minimum(begin[first_row][:, None] + columns, ids.shape[1] - 1)]
    differs = ((mine != theirs) & (columns < shortest[batch.group[rows]][:, None])).any(1)
    mixed = np.zeros(batch.n_groups, np.bool_)
    mixed[batch.group[rows[differs]]] = True
    return batch.of_groups("groups_mixed", "error", mixed)


def _constant_groups(batch: _Batch) -> Finding | None:
    constant = batch.constant
    return batch.of_groups("constant_groups", "warning" if constant.mean() > 0.5 else "info", constant)


def _whitened_constant_groups(batch: _Batch) -> Finding | None:
    """Equal numbers in all constant groups, which are also the mean of the others: those had mean 0 before the second step.

    Centring over the batch alone gives groups of other mean rewards other means.
    """
    constant = batch.constant
    if not constant.any() or constant.all() or not np.isfinite(batch.number).all():
        return None
    of_constant = constant[batch.group_of]
    value = float(np.median(batch.number[of_constant]))
    means = _sums(batch.group_of, batch.number, batch.n_groups) / batch.group_sizes
    close = FIT * float(np.abs(batch.number).max())
    one = np.abs(batch.number[of_constant] - value).max() <= close
    shared = (np.abs(means[~constant] - value) <= close).all()
    moved = bool(abs(value) > close and one and shared)
    return batch.of_groups("whitened_constant_groups", "warning", constant & moved)


def _unfinished_rows_shift_mean(batch: _Batch) -> Finding | None:
    """Where the numbers equal a scheme only if untrained, unfinished episodes count in its mean."""
    if not batch.scheme[0] or batch.reward is None or batch.arrays["ids"] is None or batch.eos is None:
        return None
    untrained = ~(batch.support & batch.mask).any(1) & ~batch.finished()
    out = _sums(batch.episode, untrained, batch.n_episodes) == batch.rows_of
    means = _sums(batch.group_of, batch.reward, batch.n_groups) / batch.group_sizes
    kept_count = np.bincount(batch.group_of[~out], minlength=batch.n_groups)
    kept_means = _sums(batch.group_of[~out], batch.reward[~out], batch.n_groups) / np.maximum(kept_count, 1)
    some = (_sums(batch.group_of, out, batch.n_groups) > 0) & (kept_count > 0) & ~batch.constant
    where = some & (np.abs(means - kept_means) > NOISE)
    return batch.of_groups("unfinished_rows_shift_mean", "warning", where)


def _departs_from(batch: _Batch) -> Finding | None:
    if batch.scheme[1] < 0:
        where = batch.support.any(1)
        return batch.finding("wrong_sign", "error", where, len(where), "rows", batch.scheme[0])
    if not batch.nearest or batch.scheme[0] or batch.departing.mean() > 0.5:  # not even most rows resemble it
        return None
    return batch.finding("departs_from", "warning", batch.departing, len(batch.mask), "rows", batch.nearest)


def _stop_not_trained(batch: _Batch) -> Finding | None:
    ids, attention = batch.arrays["ids"], batch.arrays["attention"]
    if ids is None or batch.eos is None:
        return None
    ends = batch.mask[:, :-1] & ~batch.mask[:, 1:]
    stops = ends & (ids[:, :-1] != batch.eos) & (ids[:, 1:] == batch.eos)
    if attention is not None:  # padding often has the same id
        stops &= attention[:, 1:]
    if stops.sum() < (0.5 if attention is None else 0.1) * ends.sum():  # the environment may begin with that token
        return None
    rows = stops.any(1)
    return batch.finding("stop_not_trained", "warning", stops, (int(ends.sum()), rows), "turns")


def _clipped(batch: _Batch) -> Finding | None:
    new, old = batch.arrays["logprobs"], batch.arrays["old_logprobs"]
    if new is None or old is None:
        return None
    low, high = batch.clip
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(new - old)
        where = batch.mask & (((batch.a > 0) & (ratio > 1 + high)) | ((batch.a < 0) & (ratio < 1 - low)))
    return batch.finding("clipped", "warning" if where.sum() > 0.2 * batch.mask.sum() else "info", where, batch.mask)


def _weight_by_length(batch: _Batch) -> Finding | None:
    tokens = _sums(batch.episode, batch.sizes, batch.n_episodes)
    sizes = tokens[tokens > 0] if batch.loss != "sequence" else batch.sizes[batch.sizes > 0].astype(np.float64)
    if not len(sizes) or sizes.max() < 1.5 * sizes.min():
        return None
    ratio = sizes.max() / sizes.min()
    if batch.loss == "sequence":
        where = batch.sizes == sizes.min()
        text = f"a token of the shortest row weighs {ratio:.1f} times one of the longest."
    else:
        where = tokens[batch.episode] == sizes.max()
        text = f"the longest episode weighs {ratio:.1f} times the shortest."
    return batch.finding("weight_by_length", "info", where, len(where), "rows", text)


CHECKS: Final[tuple[Callable[[_Batch], Finding | None], ...]] = (
    _empty_mask,
    _not_finite,
    _not_finite_outside_mask,
    _carries_another_rows_mask,
    _shifted_mask,
    _mass_outside_mask,
    _zeros_on_sampled_tokens,
    _all_zero,
    _groups_of_one,
    _turn_boundary_shifted,
    _turns_share_one_number,
    _groups_mixed,
    _departs_from,
    _long_episodes_count_more,
    _centred_per_turn_index,
    _whitened_constant_groups,
    _unfinished_rows_shift_mean,
    _stop_not_trained,
    _constant_groups,
    _clipped,
    _weight_by_length,
)
