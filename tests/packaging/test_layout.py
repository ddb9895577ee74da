"""The layout: links, one name per module, contents of the wheel, imports of heavy packages."""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from helpers.shared_data import ROOT

import creditflow

PACKAGES = ("agents", "assets", "envs", "train", "wrappers")


def run(*command, cwd=ROOT, **kwargs):
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300, check=False, **kwargs
    )


def python(code, **kwargs):
    return run(sys.executable, "-c", code, env={"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}, **kwargs)


@pytest.mark.parametrize("name", PACKAGES)
def test_package_folders_are_relative_links_to_the_root_folders(name):
    link = ROOT / "src" / "creditflow" / name
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / name
    assert (ROOT / name / "__init__.py").is_file()


def test_importing_a_root_folder_by_its_bare_name_is_impossible_under_safe_path():
    for name in PACKAGES:
        done = python(f"import {name}")
        assert "ModuleNotFoundError" in done.stderr, name


def test_no_source_file_imports_a_root_folder_by_its_bare_name_or_relatively():
    for path in [*ROOT.glob("tests/**/*.py"), *(p for name in PACKAGES for p in (ROOT / name).rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}"
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            assert not {name.partition(".")[0] for name in names} & {*PACKAGES, "tests"}, f"{path}:{node.lineno}"


@pytest.fixture
def without_links(tmp_path):
    """A checkout whose links are plain files, as a zip download or Windows makes them; the root's folders are the real ones."""
    package = tmp_path / "src" / "creditflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text((ROOT / "src/creditflow/__init__.py").read_text(encoding="utf-8"))
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name in PACKAGES:
        (package / name).write_text(f"../../{name}")
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_a_checkout_whose_links_are_plain_files_runs_and_the_doctor_says_how_to_mend_it(without_links):
    environment = {"PYTHONPATH": str(without_links / "src"), "PYTHONSAFEPATH": "1"}
    code = "import creditflow\nprint(creditflow.make('sokoban').reset(seed=0)[1]['task_id'])\nprint(creditflow.credit.names()[0])"
    done = run(sys.executable, "-c", code, env=environment, cwd=without_links)
    assert done.stdout.startswith("sokoban1:"), done.stderr
    done = run(sys.executable, "-m", "creditflow.train", "doctor", env=environment, cwd=without_links)
    assert "plain files" in done.stdout, done.stderr
    assert "git checkout -- src/creditflow" in done.stdout
    assert "plain files" not in python("from creditflow.train.cli import main\nmain(['doctor'])").stdout


def test_a_package_in_the_root_of_the_file_system_is_imported():
    source = (ROOT / "src/creditflow/__init__.py").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__file__": "/creditflow/__init__.py", "__name__": "copied", "__path__": []}
    exec(compile(source, "/creditflow/__init__.py", "exec"), names)  # noqa: S102 - our own file
    assert names["make"] is creditflow.make


def test_a_package_without_code_says_why_and_what_to_do(tmp_path):
    package = tmp_path / "creditflow"
    package.mkdir()
    (package / "__init__.py").write_text((ROOT / "src/creditflow/__init__.py").read_text(encoding="utf-8"))
    (package / "envs").write_text("../../envs")
    done = run(sys.executable, "-c", "import creditflow", env={"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"})
    assert done.returncode == 1
    assert "symbolic links" in done.stderr
    assert "pip install -e" in done.stderr


@pytest.mark.parametrize("command", ["--help", "--version", "envs --help", "credit --help", "bench --help"])
def test_help_imports_neither_torch_nor_matplotlib_nor_scipy(command):
    code = (
        "import sys\nfrom creditflow.train.cli import main\n"
        f"try: main({command.split()!r})\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'matplotlib', 'scipy', 'transformers', 'jinja2'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_importing_creditflow_registers_environments_without_importing_them():
    code = (
        "import sys, creditflow, gymnasium\nassert 'creditflow/Sokoban-v0' in gymnasium.registry\n"
        "assert not [m for m in sys.modules if m.startswith('creditflow.envs.sokoban')]\n"
        "assert not {'torch', 'networkx', 'PIL'} & set(sys.modules)"
    )
    assert python(code).returncode == 0


def test_gym_make_with_the_module_prefix_needs_no_import():
    code = (
        "import gymnasium, sys\nassert 'creditflow' not in sys.modules\n"
        "env = gymnasium.make('creditflow:creditflow/Sokoban-v0')\nprint(env.reset(seed=0)[1]['task_id'])"
    )
    done = python(code)
    assert done.stdout.startswith("sokoban1:"), done.stderr


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The committed tree, as it would be downloaded."""
    folder = tmp_path_factory.mktemp("archive")
    packed = folder / "tree.tar"
    done = run("git", "archive", "--format=tar", f"--output={packed}", "HEAD")
    if done.returncode:
        pytest.skip(f"not a git checkout: {done.stderr.strip()}")
    with tarfile.open(packed) as tar:
        tar.extractall(folder / "tree", filter="tar")
    return folder / "tree"


def test_the_wheel_built_from_the_sdist_holds_exactly_the_tracked_package_files(archive, tmp_path):
    pytest.importorskip("build", reason="the 'dev' extra builds wheels")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, archive)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    suffixes = {".py", ".json", ".html", ".txt", ".yaml", ".js", ".css", ".png", ".svg", ".md", ".gz"}
    expected = {"creditflow/__init__.py", "creditflow/py.typed"} | {
        f"creditflow/{path.relative_to(archive).as_posix()}"
        for name in PACKAGES
        for path in (archive / name).rglob("*")
        if path.is_file() and not path.is_relative_to(archive / "assets" / "site")  # the documentation site
    }
    unnamed = {name for name in expected if Path(name).suffix not in suffixes and not name.endswith("py.typed")}
    assert not unnamed, "a package file whose suffix [tool.setuptools.package-data] does not name"
    assert names == expected
    check = run(sys.executable, "-m", "check_wheel_contents", wheel, cwd=ROOT)
    assert check.returncode == 0, check.stdout
