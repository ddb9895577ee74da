"""Pages of the trainers: the sections of "Bring your own trainer", and the capability matrix of its table."""

from __future__ import annotations

import re

from builder.repository import read

__all__ = ["SECTIONS", "pages"]

WHERE = "train/adapters/README.md"

# heading of the section -> name of the page; the others share one
SECTIONS = {
    "Your own rollouts": "own_trainer",
    "A plain PyTorch loop": "own_trainer",
    "Any other trainer": "own_trainer",
    "TRL": "trl",
    "Stable-Baselines3, RLlib, CleanRL: classic Gymnasium trainers": "sb3",
    "verl": "verl",
    "verl-agent and its forks (GiGPO, GraphGPO, RewardFlow)": "verl",
    "verifiers": "verifiers",
}
SHARED = "more_trainers"
TITLES = {
    "own_trainer": "Your own trainer",
    "sb3": "Classic Gymnasium trainers",
    "verl": "verl and verl-agent",
    SHARED: "More trainers",
}  # of pages with several sections
# beginning of a row of the table -> page of the trainer
ROWS = {
    "plain PyTorch": "own_trainer", "TRL": "trl", "verl-agent": "verl", "verl": "verl", "verifiers": "verifiers",
    "Stable-Baselines3": "sb3", "TorchRL": "sb3",
    **dict.fromkeys(
        ("rLLM", "SkyRL-gym", "tinker-cookbook", "prime-rl", "Search-R1-style", "OpenRLHF", "slime", "Trinity-RFT", "ROLL", "AReaL",
         "Agent Lightning", "NeMo Gym", "GEM", "OpenEnv"), SHARED),
}  # fmt: skip


def pages() -> dict[str, tuple[str, str]]:
    """The overview, and the pages with the sections."""
    head, *sections = re.split(r"^## ", read(WHERE), flags=re.M)
    by_page: dict[str, list[str]] = {}
    for section in sections:
        title, _, text = section.partition("\n")
        by_page.setdefault(name_of(title.strip()), []).append(f"{title}\n{with_names(text).rstrip()}\n")
    by_page.pop("", None)
    title, _, rest = head.partition("\n")
    staged = {"integrations/index": (WHERE, f"# Trainers\n\n*{title.lstrip('# ')}.* {linked(rest.strip())}\n")}
    for name, texts in by_page.items():
        page = (
            "\n".join([f"# {TITLES[name]}\n", *(f"## {text}" for text in texts)]) if name in TITLES else f"# {texts[0]}"
        )
        staged[f"integrations/{name}"] = (WHERE, page)
    return staged


def linked(text: str) -> str:
    """The table with a link from each trainer that has a page."""
    for name, page in sorted(ROWS.items(), key=lambda row: -len(row[0])):
        text = re.sub(rf"^\| {re.escape(name)}\b(?!-)", f"| [{name}](/integrations/{page}.md)", text, flags=re.M)
    return text


def with_names(text: str) -> str:
    """A section that defines the names in capitals of its Python blocks before the first of them."""
    before, block, after = text.partition("```python")
    if not re.search(r"\((MODEL|OUT)[,)]", after):
        return text
    return (
        f"{before}Before you run the code, define `MODEL`, a Hugging Face model folder, and `OUT`, a folder to write to. With the\n"
        f'[small model](/how_to/train.md#a-small-language-model-to-try-things-with) this is `MODEL, OUT = "runs/small/model", "runs/out"`.\n\n{block}{after}'
    )


def name_of(title: str) -> str:
    """The page of a section.

    >>> name_of("TRL"), name_of("A new trainer!")
    ('trl', 'more_trainers')
    """
    return SECTIONS.get(title, SHARED)
