"""``creditflow train CONFIG --engine verl``: write verl's configuration and data, start its trainer, make a model folder.

A run is a folder, as our own trainer's: ``config.yaml`` (resolved), ``run.json``, ``tokenizer/``; in ``verl/`` what verl reads
(``verl.yaml``, ``loops.yaml``, tasks as Parquet files, each with its content, so that any node can play it) and what it writes
(``metrics-N.jsonl``, ``log-N.txt``), in ``checkpoints/`` its checkpoints, and at the end ``model/``, a Hugging Face folder with the
prompting settings and the tokenizer of the run, so that ``creditflow eval --agent hf:OUT/model`` plays it as it was trained.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.prompts import make_prompt
from creditflow.envs.errors import ConfigError, DataError, MissingExtraError
from creditflow.envs.files.atomic import atomic_path, atomic_writer
from creditflow.envs.tasks import Task
from creditflow.train.adapters.verl.credit import NAME, VERL
from creditflow.train.annotate.scheme import make_scheme
from creditflow.train.dry_run import needs_of, smoke_credit
from creditflow.train.engines.translation import VALIDATION_LOOP, Facts, Translation, translate
from creditflow.train.rollout.tasks import group_env_factory, panel_tasks, training_tasks
from creditflow.train.settings.schema import TrainConfig

__all__ = [
    "FOLDER",
    "TrainerFailedError",
    "describe",
    "export_checkpoint",
    "facts_of",
    "rows_of",
    "run_verl",
    "write_parquet",
]


def rows_of(env: str, tasks: Sequence[Task], *, agent_loop: str = "creditflow") -> list[dict[str, Any]]:
    """One row per task, with the columns that verl's data set reads.

    >>> [row] = rows_of("sokoban", [Task("sokoban1:ab", "sokoban1:ab", {"level": "#@$.#"})])
    >>> row["data_source"], row["extra_info"]["task"]
    ('creditflow/sokoban', '{"level": "#@$.#"}')
    """
    return [
        {
            "data_source": f"creditflow/{env}",
            "agent_name": agent_loop,
            "prompt": [{"role": "user", "content": task.task_id}],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": i, "task_id": task.task_id, "task": json.dumps(dict(task.content))},
        }
        for i, task in enumerate(tasks)
    ]


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows; the file appears only when it is complete.

    Raises:
        MissingExtraError: pyarrow, a dependency of verl, is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "verl") from error
    with atomic_path(path) as partial:
        pq.write_table(pa.Table.from_pylist(list(rows)), partial)


FOLDER: Final = "verl"  # of a run, with what verl reads and writes
STEP: Final = "global_step_"  # how verl names a checkpoint


class TrainerFailedError(ConfigError):
    """verl's trainer ended before the run did."""


def facts_of(settings: TrainConfig) -> Facts:
    """What a translation must know beside the settings: two short random episodes are played for it.

    Raises:
        CreditflowError: the run would fail at its start or in its first rollout.
    """
    scheme = make_scheme(settings)
    make_dialect(settings.prompting.dialect)
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)
    credit = smoke_credit(settings, scheme, tasks[0])
    evaluation = settings.evaluation
    validation = panel_tasks(settings.evaluation_env, evaluation.panel, evaluation.limit) if evaluation.panel else []
    [recorder] = group_env_factory(settings.env, 1)().members
    limit = recorder.base.max_steps
    turns = min(limit, settings.rollout.max_turns) if settings.rollout.max_turns else limit
    return Facts(
        tasks=len(tasks),
        validation_tasks=len(validation),
        max_turns=turns,
        aggregation="token_mean" if credit is None else credit.aggregation,
        needs=tuple(scheme.needs),
        pictures=make_prompt(settings.prompting.prompt).shows_pictures,
    )


def describe(settings: TrainConfig) -> int:
    """Print verl's configuration and the agent loops to standard output; memory, hours and what verl cannot do to standard error.

    Memory and hours are those of creditflow's own trainer, which does the same arithmetic on one GPU; verl's were not measured.

    Returns:
        0, or 2 if verl cannot do this run.
    """
    translation = translate(settings, facts_of(settings))
    print(f"# verl/verl.yaml: what has no line here has verl {VERL.first}'s default")
    print(translation.config_text(), end="")
    print("---\n# verl/loops.yaml")
    print(translation.loops_text(), end="")
    gpus = settings.verl.gpus * settings.verl.nodes
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)
    remarks = [
        *needs_of(settings, tasks, gpus),
        "both are estimated for creditflow's own trainer, shared by these GPUs",
    ]
    print("\n".join(f"# {line}" for line in remarks), file=sys.stderr)
    for remark in translation.left_out:
        print(f"# left out: {remark}", file=sys.stderr)
    for remark in translation.refused:
        print(f"# verl cannot do this: {remark}", file=sys.stderr)
    return 2 if translation.refused else 0


def run_verl(settings: TrainConfig, *, resume: bool = False) -> None:
    """Train with verl, and write ``model/``.

    Raises:
        MissingExtraError, ConfigError: verl is missing, of another release, or cannot do this run.
        TrainerFailedError: verl's trainer stopped; with the reason of the first episode that failed, if one did.
    """
    VERL.require()
    translation = translate(settings, facts_of(settings))
    if translation.refused:
        raise ConfigError("verl cannot do this run:\n" + "\n".join(f"  {remark}" for remark in translation.refused))
    _require_gpus(settings)
    folder = Path(settings.out).absolute()
    if resume:
        last = _last_step(folder)
        print(
            f"continues after iteration {last} of {settings.update.iterations}"
            if last
            else "starts over: no checkpoint"
        )
    else:
        _write_inputs(settings, folder)
    _write_texts(translation, folder)
    if _last_step(folder) < settings.update.iterations:
        _start_trainer(settings, folder)
    model = export_checkpoint(settings, folder)
    print(f"wrote {model}; play it as it was trained with")
    panel = settings.evaluation.final_panel or settings.evaluation.panel
    print(f"  creditflow eval --agent hf:{model} --env {settings.env.name}" + (f" --panel {panel}" if panel else ""))


def _require_gpus(settings: TrainConfig) -> None:
    """Raise ConfigError if this node lacks the GPUs: verl would wait for them. A rehearsal without GPUs brings a platform for verl."""
    import torch

    if settings.device == "cpu":
        if os.environ.get("VERL_PLATFORM") != "cpu":
            raise ConfigError(
                "verl has no platform for device=cpu; a rehearsal takes that of a checkout's tests: VERL_PLATFORM=cpu, "
                "VERL_USE_EXTERNAL_MODULES=helpers.servers.verl_cpu and the folder tests on PYTHONPATH"
            )
        return
    devices = torch.cuda.device_count()
    if not settings.verl.ray and devices < settings.verl.gpus:
        raise ConfigError(
            f"verl.gpus is {settings.verl.gpus}, and torch sees {devices} on this machine; set verl.gpus, or verl.ray to the "
            "address of a cluster"
        )


def _write_inputs(settings: TrainConfig, folder: Path) -> None:
    """What a resumed run needs, and the tasks."""
    from creditflow.agents.language_model.pretrained import open_tokenizer
    from creditflow.agents.models.pictures import save_tokenizer
    from creditflow.train.run.folder import init_run_folder

    pictures = make_prompt(settings.prompting.prompt).shows_pictures
    tokenizer = open_tokenizer(settings.model.path, pictures=pictures)
    settings.prompting.conversations(tokenizer)  # fails here and not in every episode
    init_run_folder(folder, settings, tokenizer)
    inputs = folder / FOLDER
    inputs.mkdir(exist_ok=True)
    save_tokenizer(tokenizer, inputs / "tokenizer")
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)
    write_parquet(inputs / "train.parquet", rows_of(settings.env.name, tasks, agent_loop=NAME))
    evaluation = settings.evaluation
    if evaluation.panel:
        tasks = panel_tasks(settings.evaluation_env, evaluation.panel, evaluation.limit)
        rows = rows_of(settings.env.name, tasks, agent_loop=VALIDATION_LOOP)
        write_parquet(inputs / "validation.parquet", rows)


def _write_texts(translation: Translation, folder: Path) -> None:
    """verl's configuration and the agent loops' file, with the folder where loops report their failures."""
    inputs = folder / FOLDER
    failures = inputs / "failures"
    shutil.rmtree(failures, ignore_errors=True)
    loops = translation.loops_text().replace("\n  _target_:", f"\n  failures: {failures}\n  _target_:")
    for name, text in (("verl.yaml", translation.config_text()), ("loops.yaml", loops)):
        with atomic_writer(inputs / name) as stream:
            stream.write(text)


def _start_trainer(settings: TrainConfig, folder: Path) -> None:
    """Run verl's trainer to its end, its output on ours and in a log of its own.

    Raises:
        TrainerFailedError: it failed.
    """
    inputs = folder / FOLDER
    number = 1 + len(list(inputs.glob("log-*.txt")))
    command = [
        sys.executable,
        "-m",
        "verl.trainer.main_ppo",
        "--config-dir",
        str(inputs),
        "--config-name",
        "verl",
        f"hydra.run.dir={inputs}/hydra",
    ]
    log = inputs / f"log-{number}.txt"
    with tempfile.TemporaryDirectory(prefix="ray") as ray_folder:  # names of sockets must be short
        code = _piped(command, _environment(settings, inputs, number, ray_folder), log)
    if code:
        raise TrainerFailedError(_reason(inputs, log, code))


def _environment(settings: TrainConfig, inputs: Path, number: int, ray_folder: str) -> dict[str, str]:
    """The environment of verl's processes on this node."""
    variables = {
        **os.environ,
        "VERL_FILE_LOGGER_PATH": str(inputs / f"metrics-{number}.jsonl"),
        "TENSORBOARD_DIR": str(inputs.parent / "tensorboard"),
        "WANDB_DIR": str(inputs.parent),
        "HYDRA_FULL_ERROR": "1",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if not settings.verl.ray:
        variables["RAY_TMPDIR"] = ray_folder
    return variables


def _piped(command: list[str], environment: dict[str, str], log: Path) -> int:
    """Run a command, its output on standard output and in a file; returns its exit code.

    A command that is ended by SIGTERM ends what it started: verl's trainer would go on without it, on all GPUs.
    """
    with (
        _ended_by_sigterm(),
        log.open("w", encoding="utf-8") as stream,
        subprocess.Popen(  # noqa: S603 - verl's own programs, by this Python
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                stream.write(line)
                stream.flush()
                print(line, end="", flush=True)
        except BaseException:
            process.terminate()
            raise
        return process.wait()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Raise SystemExit on SIGTERM, in a main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _reason(inputs: Path, log: Path, code: int) -> str:
    """Why the trainer failed: the first failed episode's own reason, or the last line of its output that names an error."""
    reports = sorted((inputs / "failures").glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)
    if reports:
        reason = reports[0].read_text(encoding="utf-8").partition("\n\n")[0]
        return f"verl's trainer stopped because an episode failed: {reason}\n(more in {reports[0]} and {log})"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.strip() for line in lines if "Error: " in line or "Exception: " in line]
    last = f": {errors[-1][-400:]}" if errors else ""
    return f"verl's trainer stopped with exit code {code}{last}\n(its output is in {log}; continue with --resume {inputs.parent})"


def _last_step(folder: Path) -> int:
    """The iteration of the latest complete checkpoint; 0 if there is none."""
    tracker = folder / "checkpoints" / "latest_checkpointed_iteration.txt"
    return int(tracker.read_text(encoding="ascii")) if tracker.is_file() else 0


def export_checkpoint(settings: TrainConfig, folder: Path, step: int = 0, out: Path | None = None) -> Path:
    """Merge a checkpoint of verl's into a Hugging Face folder with the run's prompting settings and tokenizer.

    Args:
        settings: of the run.
        folder: the run folder.
        step: iteration of the checkpoint; 0 takes the latest.
        out: where the model is written; default ``model/`` of the run.

    Raises:
        DataError: there is no such checkpoint.
        TrainerFailedError: verl's merger failed.
    """
    from creditflow.agents.language_model.pretrained import AGENT_FILE, write_agent_file
    from creditflow.agents.models.pictures import save_tokenizer
    from creditflow.train.run.folder import export_model, load_run_tokenizer

    step = step or _last_step(folder)
    weights = folder / "checkpoints" / f"{STEP}{step}" / "actor"
    if not weights.is_dir():
        held = sorted(int(path.name.removeprefix(STEP)) for path in (folder / "checkpoints").glob(f"{STEP}*"))
        raise DataError(f"{folder}: no checkpoint of iteration {step}; there are {held}")
    tokenizer = load_run_tokenizer(folder)

    def save(place: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "verl.model_merger",
            "merge",
            "--backend",
            "fsdp",
            "--local_dir",
            str(weights),
            "--target_dir",
            str(place),
        ]
        log = folder / FOLDER / "merger.txt"
        if code := _piped(command, _environment(settings, folder / FOLDER, 0, ""), log):
            raise TrainerFailedError(f"verl's merger stopped with exit code {code} (its output is in {log})")
        for path in place.iterdir():  # the merger's tokenizer was rebuilt by transformers, and may split otherwise
            of_model = path.name in ("config.json", "generation_config.json") or ".safetensors" in path.name
            if path.is_file() and not of_model:
                path.unlink()
        save_tokenizer(tokenizer, place)
        write_agent_file(place / AGENT_FILE, settings.prompting, settings.sampling)

    target = out or folder / "model"
    export_model(target, save)
    return target
