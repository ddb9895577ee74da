"""Pages of the trainers: the sections of "Bring your own trainer", and the capability matrix of its table."""

from __future__ import annotations

import re

from creditflow.assets.site.repository import read

__all__ = ["SECTIONS", "pages"]

WHERE = "train/adapters/README.md"

# heading of the section -> name of the page; the others share one
SECTIONS = {
    "Your own rollouts": "own_rollouts",
    "A plain PyTorch loop": "own_rollouts",
    "Any other trainer": "own_rollouts",
    "TRL": "trl",
    "Stable-Baselines3, RLlib, CleanRL: classic Gymnasium trainers": "sb3",
    "verl": "verl",
    "verl-agent and its forks (GiGPO, GraphGPO, RewardFlow)": "verl_agent_short",
    "verifiers": "verifiers",
}
SHARED = "more_trainers"
TITLES = {"own_rollouts": "Your own trainer", SHARED: "More trainers"}  # of pages with several sections
# beginning of a row of the table -> page of the trainer
ROWS = {
    "plain PyTorch": "own_rollouts", "TRL": "trl", "verl-agent": "verl_agent", "verl": "verl", "verifiers": "verifiers",
    "GEM": "loops", "Stable-Baselines3": "sb3", "OpenEnv": "openenv", "TorchRL": "torchrl",
    **dict.fromkeys(
        ("rLLM", "SkyRL-gym", "tinker-cookbook", "prime-rl", "Search-R1-style", "OpenRLHF", "slime", "Trinity-RFT", "ROLL", "AReaL",
         "Agent Lightning", "NeMo Gym"), SHARED),
}  # fmt: skip
INCLUDED = {"verl_agent_short": "verl_agent"}  # a page of its own says more
MORE = ("loops", "openenv", "torchrl", "verl_scaling", "data")


def pages() -> dict[str, tuple[str, str]]:
    """The overview, and the pages with the sections."""
    head, *sections = re.split(r"^## ", read(WHERE), flags=re.M)
    by_page: dict[str, list[str]] = {}
    for section in sections:
        name = name_of(section.partition("\n")[0].strip())
        if name not in INCLUDED:
            by_page.setdefault(name, []).append(section)
    staged = {}
    for name, parts in by_page.items():
        texts = [
            f"{title}\n{with_names(text).rstrip()}\n" for title, _, text in (part.partition("\n") for part in parts)
        ]
        page = (
            "# " + texts[0]
            if len(texts) == 1
            else "\n".join([f"# {TITLES[name]}\n", *(f"## {text}" for text in texts)])
        )
        staged[f"integrations/{name}"] = (WHERE, page)
    names = [name_of(section.partition("\n")[0].strip()) for section in sections]
    listed = [INCLUDED.get(name, name) for name in names] + list(MORE)
    title, _, rest = head.partition("\n")
    tree = "```{toctree}\n:hidden:\n" + "\n".join(dict.fromkeys(listed)) + "\n```\n"
    staged["integrations/index"] = (
        WHERE,
        f"# Integrations\n\n*{title.lstrip('# ')}.* {linked(rest.strip())}\n\n{tree}",
    )
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
        f'[small model](/how_to/small_model.md) this is `MODEL, OUT = "runs/small/model", "runs/out"`.\n\n{block}{after}'
    )


def name_of(title: str) -> str:
    """The page of a section.

    >>> name_of("TRL"), name_of("A new trainer!")
    ('trl', 'more_trainers')
    """
    return SECTIONS.get(title, SHARED)
