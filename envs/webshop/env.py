"""``creditflow/WebShop-v0``: given an instruction, search, open pages, choose options and buy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from typing import Any, ClassVar, Final

from creditflow.envs.core import AgentEnv, Outcome
from creditflow.envs.errors import EpisodeError
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import Task
from creditflow.envs.text.frame import FRAMES_PER_SECOND, RENDER_MODES, check_render_mode, rendered
from creditflow.envs.webshop.actions import ShopAction, parse_action
from creditflow.envs.webshop.catalogue.stock import Stock
from creditflow.envs.webshop.goals.goals import Goal
from creditflow.envs.webshop.goals.nouns import named_tagger
from creditflow.envs.webshop.goals.tasks import ListedGoals, goal_from_content
from creditflow.envs.webshop.oracle import ShopOracle
from creditflow.envs.webshop.presets import resolve_preset
from creditflow.envs.webshop.render import (
    insert_ads,
    next_key,
    page_nodes,
    render_rich,
    render_text,
    rewardflow_state,
    verl_page,
)
from creditflow.envs.webshop.reward import NO_PURCHASE
from creditflow.envs.webshop.rules import INDEX, Shop, ShopState, address, check_state, listed_actions
from creditflow.envs.webshop.snapshot import Snapshot, read_snapshot, write_snapshot
from creditflow.envs.webshop.tasks import open_tasks, solvable

__all__ = ["WebShopEnv"]

PERFECT_REWARD: Final = 10.0
_NO_VALUES: Final[tuple[str, ...]] = ()


class WebShopEnv(AgentEnv[str, str, ShopAction]):
    """Buy the product that the instruction describes.

    All arguments are JSON values, so ``env.spec`` round-trips; environments of one process over the same data share one
    catalogue.

    Args:
        panel: "<panel>:<split>" of the embedded panels; the default source, "standard-v1:train". The panels
            "small-synthetic-v1" and "small-human-v1" go with ``data``: goals of WebShop's thousand products.
        data: otherwise instead of a panel, a folder with WebShop's files; or a
            ``Stock``, to which ``goals`` and ``seed`` do not apply.
        goals: with ``data``, "synthetic" or "human".
        split: with ``data``, a split of the preset: "val" and "train" (verl_agent, rewardflow, graphgpo), "test", "dev"
            and "train" (upstream), "valid" and "train" (standard), or "all".
        seed: with ``data``, random seed of prices and price caps; in the trainers' presets also of the order of goals.
        preset: see ``presets``; the next six arguments override it.
        obs_mode: "text" or "text_rich".
        reward: "score" or "ten".
        max_steps: limit of an episode.
        show_attributes: whether item pages offer their attributes.
        ads: number of advertisements inserted into every page.
        ad_chance: probability that each of them appears.
        tagger: "rules" or "spacy": the rule that finds the nouns of a product name, for the reward.

    Info has, beside the common keys: ``page``, ``url``, ``asin``, ``goal_index`` (-1 if it is not one of the stock's goals),
    ``solvable``, and the parts of the score, zero before a purchase: ``r_type``, ``r_att``, ``w_att``, ``r_option``,
    ``w_option``, ``r_price``, ``w_price``, ``query_match``, ``category_match``, ``title_score``. ``success`` is a score
    of exactly 1.

    Raises:
        ConfigError: a wrong argument.
        DataError: files that are missing or malformed.
    """

    env_name: ClassVar[str] = "webshop"
    lists_all_actions = False
    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": FRAMES_PER_SECOND}

    def __init__(
        self,
        *,
        panel: str | None = None,
        data: str | Stock | None = None,
        goals: str = "synthetic",
        split: str = "all",
        seed: int = 42,
        preset: str = "standard",
        obs_mode: str | None = None,
        reward: str | None = None,
        max_steps: int | None = None,
        show_attributes: bool | None = None,
        ads: int | None = None,
        ad_chance: float | None = None,
        tagger: str = "rules",
        render_mode: str | None = None,
    ) -> None:
        check_render_mode(render_mode)
        self.preset = resolve_preset(
            preset,
            obs_mode=obs_mode,
            reward=reward,
            max_steps=max_steps,
            show_attributes=show_attributes,
            ads=ads,
            ad_chance=ad_chance,
        )
        self.goal_tasks = open_tasks(self.preset, panel=panel, data=data, goals=goals, split=split, seed=seed)
        super().__init__(tasks=self.goal_tasks, max_steps=self.preset.max_steps)
        self.stock = self.goal_tasks.stock
        self.render_mode = render_mode
        self._tagger = named_tagger(tagger)
        self._oracle = ShopOracle(self._open_snapshot, len(self.stock.catalogue))
        self.action_space = TextSpace(("search[gift]", "click[back to search]", "click[next >]", "click[buy now]"))
        self.observation_space = TextSpace()
        self._shop: Shop | None = None
        self._state, self._values = INDEX, _NO_VALUES
        self._goal_index, self._solvable = -1, False
        self._parts = NO_PURCHASE
        self._noise = ""  # key of the advertisements on the present page
        self._text = ""

    # -- AgentEnv -----------------------------------------------------------------------------------------------------
    def _start(self, task: Task) -> None:
        goal, self._goal_index = self._goal_of(task)
        self._shop = self._shop_for(goal, str(self._goal_index) if self._goal_index >= 0 else "task")
        self._solvable = solvable(self.stock.catalogue, self._shop.goal)
        self._noise = str(self.np_random.bit_generator.random_raw()) if self.preset.ads else ""
        self._move_to(INDEX, ())

    def _goal_of(self, task: Task) -> tuple[Goal, int]:
        """The goal of a task and its number; a task that the source made is looked up instead of parsed again."""
        if isinstance(self.goal_tasks, ListedGoals):  # their numbers differ between copies of the data
            return goal_from_content(task.content, self.stock), -1
        number = self.goal_tasks.number_of(task.task_id)
        if number >= 0:
            return self.stock.goals[number], number
        goal = goal_from_content(task.content, self.stock)
        return goal, self.stock.number_of(goal)

    def _shop_for(self, goal: Goal, session: str) -> Shop:
        return Shop(self.stock.catalogue, goal, session, self.preset.show_attributes, self._tagger)

    def _move_to(self, state: ShopState, values: tuple[str, ...]) -> None:
        self._state, self._values = state, values
        self._parts = self.shop.purchase(state) if state.page == "done" else NO_PURCHASE
        self._text = ""

    @property
    def shop(self) -> Shop:
        """The rules of the shop with the present goal.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        if self._shop is None:
            raise EpisodeError("there is no task yet: call reset() first")
        return self._shop

    @property
    def shop_state(self) -> ShopState:
        """The present page with the choices made."""
        return self._state

    def _parse(self, action: Any) -> tuple[ShopAction | None, str]:
        if not isinstance(action, str):
            return None, f"an action is a text such as search[words] or click[name], got {type(action).__name__}"
        parsed = parse_action(action)
        if parsed is None:
            return None, "an action has the form search[words] or click[name]"
        return parsed, ""

    def _spell(self, action: ShopAction) -> str:
        return str(action)

    def _rejection_reason(self, action: ShopAction) -> str:
        return self.shop.rejection_reason(self._state, action)

    def _apply(self, action: ShopAction) -> Outcome:
        before = self._state
        after = self.shop.act(before, action)
        if self.preset.ads:
            self._noise = next_key(self._noise, str(action))
        values = _NO_VALUES
        if before.page == after.page == "item":
            values = tuple(dict.fromkeys((*self._values, action.argument)))
        self._move_to(after, values)
        done = after.page == "done"
        score = self._parts.score
        reward = score if self.preset.reward == "score" else PERFECT_REWARD * (score == 1.0)
        return Outcome(float(reward), done, self.shop.identity(after) != self.shop.identity(before))

    def _invalid_action_reward(self) -> float:
        return 0.0

    def _observe(self) -> str:
        if not self._text:
            self._text = self._render(self.preset.obs_mode)
        return self._text

    def _render(self, mode: str) -> str:
        shop, state = self.shop, self._state
        nodes = page_nodes(shop, state)
        if self.preset.ads:
            nodes = insert_ads(nodes, self.preset.ads, self._noise, chance=self.preset.ad_chance)
        return render_rich(nodes, state, shop.session) if mode == "text_rich" else render_text(nodes)

    def _keys(self) -> tuple[str, str]:
        content = repr((self.task.task_id, *self.shop.identity(self._state))).encode("utf-8", "backslashreplace")
        return f"{self._state.page}:{blake2b(content, digest_size=16).hexdigest()}", self._text_key()

    def _text_key(self) -> str:
        if self.preset.text_key == "page":
            return self._observe()
        text = self._observe() if self.preset.obs_mode == "text" else self._render("text")
        page = verl_page(text, self.shop.goal.instruction)
        return rewardflow_state(page, self._values) if self.preset.text_key == "clicked" else page

    def _admissible(self) -> tuple[str, ...]:
        return listed_actions(self.shop, self._state)

    def _progress(self) -> tuple[bool, float]:
        return self._parts.score == 1.0, self._parts.score

    def _extra_info(self) -> dict[str, Any]:
        fields = self._parts._asdict()
        del fields["score"]
        return {
            "page": self._state.page,
            "url": address(self._state, self.shop.session),
            "asin": self._state.asin,
            "goal_index": self._goal_index,
            "solvable": self._solvable,
            **fields,
        }

    # -- snapshots and oracle -----------------------------------------------------------------------------------------
    def get_state(self) -> str:
        """A self-contained snapshot of the episode; the catalogue is named by its digest."""
        content = dict(self.task.content)
        return write_snapshot(
            Snapshot(content, self.shop.session, self.elapsed_steps, self._state, self._values, self._noise)
        )

    def set_state(self, snapshot: str) -> tuple[str, dict[str, Any]]:
        """Restore a snapshot; returns what ``reset`` would.

        Raises:
            DataError: not a snapshot of this environment, or of another catalogue.
        """
        read = read_snapshot(snapshot)
        task = self.goal_tasks.from_content(read.task)
        check_state(self.stock.catalogue, read.state)
        self._begin(task, read.steps)
        self._shop = self._shop_for(self.shop.goal, read.session)
        self._noise = read.noise
        self._move_to(read.state, read.values)
        self._over = read.state.page == "done" or read.steps >= self.max_steps
        return self._observe(), self._info(True, True, False, "")

    def _open_snapshot(self, snapshot: str) -> tuple[Shop, ShopState]:
        read = read_snapshot(snapshot)
        check_state(self.stock.catalogue, read.state)
        return self._shop_for(goal_from_content(read.task, self.stock), read.session), read.state

    @property
    def oracle(self) -> ShopOracle:
        """The oracle, which evaluates snapshots."""
        return self._oracle

    def render(self) -> Any:
        """The page with labelled buttons, as a text or a frame."""
        return rendered(self._render("text_rich"), self.render_mode)

    def describe(self) -> Mapping[str, Any]:
        """Facts to report with results: catalogue, search engine, number of goals, the preset's options."""
        return {
            "products": len(self.stock.catalogue),
            "catalogue": self.stock.catalogue.digest,
            "search_engine": type(self.stock.catalogue.engine).__name__,
            "goals": len(self.goal_tasks.numbers),
            **asdict(self.preset),
        }
