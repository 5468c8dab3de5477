"""The arrows of the house: which room may import which, and what no room may pull in."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "config": {"files"},
    "agent": {"engine.base", "config.schema"},
    "engine": {"config.schema", "plugins", "extras"},
    "memory": {"agent", "engine.base", "config.schema", "files", "extras"},
    "rollout": {"agent", "engine.base", "memory", "envs", "config.schema", "files"},
    "learn": {"agent", "config.schema", "files", "plugins"},
    "evaluate": {"agent", "rollout", "memory", "envs", "engine.base", "config.schema", "files"},
    "run": {"config", "files", "extras"},
    "report": {"config", "run", "files"},
}
WITHOUT_TORCH = ("config", "agent", "run", "report")


def imported(path: Path) -> set[str]:
    """Full names of the project's own modules that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", files("envs"), ids=lambda path: str(path.relative_to(ROOT)))
def test_environments_know_nothing_of_the_trainer(path: Path):
    assert not [name for name in imported(path) if name.split(".")[0] in ("mh_train", "torch")]


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_its_row_allows(room: str):
    for path in files(f"mh_train/{room}"):
        for name in imported(path):
            top = name.split(".")[0]
            if top == "envs":
                assert "envs" in MAY_IMPORT[room], f"{path}: {name}"
            if top != "mh_train" or name in ("mh_train", "mh_train.__version__"):
                continue
            inside = name.removeprefix("mh_train.")
            allowed = inside.split(".")[0] == room or any(inside.startswith(f"{a}") for a in MAY_IMPORT[room])
            parent_of_allowed = any(a.startswith(f"{inside}.") for a in MAY_IMPORT[room])
            assert allowed or parent_of_allowed, f"{path} imports {name}"


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_light_rooms_load_without_torch(room: str):
    paths = [path.relative_to(ROOT).with_suffix("") for path in files(f"mh_train/{room}")]
    modules = [".".join(path.parts) for path in paths if path.name != "__init__"]
    code = (
        f"import sys, importlib; [importlib.import_module(m) for m in {modules!r}]; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_help_answers_without_anything_heavy():
    code = (
        "import sys; from mh_train.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'hydra', 'omegaconf', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)
