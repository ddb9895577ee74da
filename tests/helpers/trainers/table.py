"""The table of trainers in ``train/adapters/README.md``, made from the pins of the tiers and the tests that run there.

``python tests/helpers/trainers/table.py`` writes it; ``tests/train/adapters/test_trainer_page.py`` fails if it is stale. Releases come
from ``constraints/``, commits of checkouts from ``.ci/run``. If a test runs the bridge's contract on an adapter, its row names that test.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "train" / "adapters" / "README.md"
HEAD = "| trainer, tested version | what you get | limits | lines to write | tested by |\n| --- | --- | --- | --- | --- |\n"


class Row(NamedTuple):
    """A trainer: its name with {package} or {VARIABLE} for versions, the folder or module of its adapter, and four cells."""

    trainer: str
    end: str
    travels: str
    cannot: str
    lines: str
    tests: str


ROWS = (
    Row(
        "plain PyTorch {torch}", "",
        "`make_rows`: token ids, positions and one advantage per token",
        "–",
        "24",
        "the block below, `tests/extras/train/policy/test_samples.py`",
    ),
    Row(
        "TRL {trl}", "trl",
        "advantages `(B, T)` in `GRPOTrainer`, with one row per episode or per turn",
        "no images",
        "18",
        "`tests/extras/trl`",
    ),
    Row(
        "verl {verl}", "verl",
        "advantages and mask `(B, T)` in its queue, with one row per episode or per turn",
        "no annotations",
        "3, a plugin",
        "`tests/extras/verl`: `test_trainer_step.py`, `test_windowed.py`, `test_contract.py`",
    ),
    Row(
        "verl-agent and forks (d0b9724)", "verl_agent",
        "our environments and credit, or only the advantages of its batches",
        "no images, no annotations; its trainer was not run",
        "2",
        "`tests/train/adapters/test_verl_agent_manager.py`, `tests/conformance/test_verl_agent_golden.py`",
    ),
    Row(
        "verifiers {verifiers} (v1)", "verifiers",
        "our environments; one number per turn in the trace and per sampled token in its nodes",
        "no windowed histories, no annotations, no compaction",
        "22",
        "`tests/extras/verifiers`, and its block in a fresh environment",
    ),
    Row(
        "rLLM 0.3.0.pre ({RLLM_SOURCE})", "rllm",
        "our environments; `Step.advantage` per sampled token",
        "no loss masks, no annotations; its trainers were not run",
        "22",
        "`tests/extras/rllm`, and its block in a fresh environment",
    ),
    Row(
        "SkyRL-gym {skyrl-gym}, SkyRL {skyrl}", "skyrl",
        "our environments; `rewards` per token and an estimator `(B, T)`",
        "no step-wise rows, no reward metrics; SkyRL's trainer was not run",
        "9",
        "`tests/extras/skyrl`, `tests/extras/train/adapters/test_skyrl_estimator.py`",
    ),
    Row(
        "GEM {gem-llm} (gem-llm)", "gem",
        "our environments by one import, shaped rewards, one record per episode and one number per turn",
        "no tokens (the loop keeps them); its trainers were not run",
        "1, an import",
        "`tests/extras/gem`, page `LOOPS.md`",
    ),
    Row(
        "tinker-cookbook {tinker-cookbook}, tinker {tinker}", "tinker",
        "our environments; one advantage per token in datums",
        "its service was not reached",
        "13, one of which replaces a function",
        "`tests/extras/tinker`",
    ),
    Row(
        "prime-rl 0.8.0 ({PRIME_RL_SOURCE})", "prime_rl",
        "one advantage per sampled token in verifiers' traces",
        "no separate name in its configuration; not trained",
        "3, a patch",
        "`tests/extras/prime_rl`",
    ),
    Row(
        "Stable-Baselines3 {stable_baselines3}", "sb3",
        "one dense reward per step (`DenseReward`)",
        "no advantages",
        "7",
        "`tests/train/adapters/test_trainer_page.py`",
    ),
    Row(
        "Ray {ray}", "",
        "our own trainer with episodes from remote workers",
        "no credit inside RLlib, where a dense reward works",
        "one setting",
        "`tests/extras/ray`",
    ),
    Row(
        "OpenEnv {openenv} (reaches TRL, verifiers, NeMo Gym, …)", "openenv",
        "our environments over WebSocket, with state keys and shaped rewards",
        "no advantages, only rewards per step",
        "1, `serve env`",
        "`tests/extras/openenv`, page `OPENENV.md`",
    ),
    Row(
        "TorchRL {torchrl}", "torchrl",
        "our environments; `advantage` per step in rollouts, or dense rewards in hindsight",
        "no texts, no annotations, no task payloads",
        "4",
        "`tests/extras/torchrl`, page `TORCHRL.md`",
    ),
    Row(
        "slime 0.3.1 ({SLIME_SOURCE})", "slime",
        "one number per response token in `rewards`, from our environments' records",
        "not run with context parallelism or on a GPU",
        "3 arguments",
        "`tests/extras/hooks/test_slime.py`",
    ),
    Row(
        "Trinity-RFT {trinity-rft}", "trinity",
        "`advantages` per experience, computed from its state hashes",
        "no annotations, no task payloads",
        "3 in its configuration",
        "`tests/extras/hooks/test_trinity.py`",
    ),
    Row(
        "ROLL 0.3 ({ROLL_SOURCE})", "roll",
        "`response_level_rewards` per step, computed from its state hashes",
        "no last state, no ends of episodes; its pipeline was not run",
        "2, a patch",
        "`tests/extras/hooks/test_roll.py`",
    ),
    Row(
        "AReaL {areal}", "areal",
        "one reward per interaction",
        "no last state, no normalisation, no KL, no discounts",
        "1, a workflow",
        "`tests/extras/hooks/test_areal.py`",
    ),
    Row(
        "Agent Lightning 1.0.0 ({AGENT_LIGHTNING_SOURCE})", "agent_lightning",
        "one row per turn with its number, through our estimator in verl",
        "no last state, no rows of whole trajectories; not trained",
        "3, a patch",
        "`tests/extras/agent_lightning`",
    ),
    Row(
        "NeMo Gym 0.7 ({NEMO_GYM_SOURCE})", "nemo_gym",
        "our environments through its gymnasium agent, with state keys, rewards per step and a record",
        "no advantages, because only one reward per episode reaches its trainers",
        "2, a server",
        "`tests/extras/hooks/test_nemo_gym.py`",
    ),
    Row(
        "Search-R1-style reward functions", "",
        "one reward per episode",
        "**no per-turn credit**",
        "6",
        "`tests/train/adapters/test_search_r1.py` (which reads their logs)",
    ),
    Row(
        "OpenRLHF 0.11", "",
        "one number per episode",
        "**no per-turn credit**, except in a fork",
        "–",
        "not run",
    ),
)  # fmt: skip


def versions() -> dict[str, str]:
    """Releases by package, and commits by the variable that names a checkout."""
    pins: dict[str, str] = {}
    for path in sorted((ROOT / "constraints").glob("*.txt")):
        tier = path.stem
        if tier in ("oldest", "newest", "minimal"):
            continue
        for package, version in re.findall(r"(?:^|\s)([A-Za-z][\w.-]*)==([\w.]+)", path.read_text(encoding="utf-8")):
            pins.setdefault(package.lower(), version)
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    pins |= dict(re.findall(r"([A-Z_\d]+_SOURCE)[^\n(]*?\(([0-9a-f]{7})\)", run))
    return pins | dict(re.findall(r"checkout ([A-Z_]+_SOURCE) \S+ ([0-9a-f]{7})", run))


def contracts(end: str) -> list[str]:
    """Tests that run the bridge's contract on an adapter."""
    tests = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if end and "check_end(" in text and re.search(rf"adapters\.{end}\b", text):
            tests.append(path.relative_to(ROOT).as_posix())
    return tests


def table() -> str:
    """The table as Markdown."""
    pins, lines = versions(), []
    for row in ROWS:
        trainer = re.sub(r"\{([^}]+)\}", lambda match: pins[match[1]], row.trainer)
        contract = "".join(f"; contract: `{name}`" for name in contracts(row.end) if name not in row.tests)
        lines.append(f"| {trainer} | {row.travels} | {row.cannot} | {row.lines} | {row.tests}{contract} |\n")
    return HEAD + "".join(lines)


def page() -> str:
    """The page with the table as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(HEAD)
    return before + table() + rest[re.match(r"(?:\|[^\n]*\n)*", rest).end() :]  # type: ignore[union-attr]  # it matches ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
