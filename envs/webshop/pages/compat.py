"""The text formats of pages in verl-agent, RewardFlow and the original."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["rewardflow_state", "upstream_history", "verl_actions", "verl_page"]

SEPARATOR = " [SEP] "


def verl_page(text: str, instruction: str) -> str:
    """A text page as verl-agent shows it: the parts after the instruction, each in single quotes.

    The page after a purchase does not contain the instruction and is returned unchanged.

    >>> verl_page("WebShop [SEP] Instruction: [SEP] buy tea [SEP] Search", "buy tea")
    "'Search'"
    """
    texts = text.split(SEPARATOR)
    expected = instruction.strip()
    if expected not in texts:
        return text
    return SEPARATOR.join(f"'{piece}'" for piece in texts[texts.index(expected) + 1 :])


def verl_actions(has_search_bar: bool, clickables: Iterable[str]) -> tuple[str, ...]:
    """The actions that verl-agent lists in a prompt; on the first page ``click[search]`` is among them.

    >>> verl_actions(True, ["search"])
    ('search[<your query>]', 'click[search]')
    """
    return (*(("search[<your query>]",) if has_search_bar else ()), *(f"click[{text}]" for text in clickables))


def rewardflow_state(page: str, clicked: Iterable[str]) -> str:
    """RewardFlow's state: verl-agent's page, and the option values clicked, in the order of the clicks.

    Clicking ``a`` then ``b`` and ``b`` then ``a`` are two states, a replaced value stays in the list, and a visit to a
    sub page empties it although the shop keeps the choice: that is the published form.

    >>> rewardflow_state("'Buy Now'", ["navy", "large"])
    "'Buy Now' clicked attributes: [navy, large]"
    """
    values = list(clicked)
    return f"{page} clicked attributes: [{', '.join(values)}]" if values else page


def upstream_history(
    page: str, pages: Sequence[str], actions: Sequence[str], num_prev_obs: int = 0, num_prev_actions: int = 0
) -> str:
    """A page with earlier pages and actions in front, oldest first, as with the original's ``num_prev_*`` options.

    Args:
        page: the present page.
        pages: the pages before it, oldest first.
        actions: the actions so far, oldest first; the last one led to ``page``.
        num_prev_obs: number of earlier pages.
        num_prev_actions: number of actions.

    >>> upstream_history("C", ["A", "B"], ["a", "b"], num_prev_obs=1, num_prev_actions=2)
    'a [SEP] B [SEP] b [SEP] C'
    """
    texts = [page]
    for back in range(1, max(num_prev_obs, num_prev_actions) + 1):
        if back <= min(num_prev_actions, len(actions)):
            texts.append(actions[-back])
        if back <= min(num_prev_obs, len(pages)):
            texts.append(pages[-back])
    return SEPARATOR.join(reversed(texts))
