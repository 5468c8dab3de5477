"""The wheel holds everything a run needs and works from any folder; the version is written in one place."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mh_train import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel as a build frontend makes it; hatchling builds the folder it runs in."""
    out = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build; print(hatchling.build.build_wheel({str(out)!r}))"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return out / made.stdout.split()[-1]


def test_everything_of_the_packages_and_the_configs_is_inside(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [
        path.relative_to(ROOT)
        for package in ("mh_train", "envs", "configs")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    wanted = {str("mh_train" / path if path.parts[0] == "configs" else path) for path in files}
    assert wanted - names == set()
    assert {name.split("/")[0] for name in names} == {"mh_train", "envs", f"mh_train-{__version__}.dist-info"}


def test_metadata_names_version_licence_and_command(wheel):
    inside = zipfile.ZipFile(wheel)
    info = f"mh_train-{__version__}.dist-info"
    metadata = inside.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "mh-train = mh_train.cli:main" in inside.read(f"{info}/entry_points.txt").decode()


def test_it_runs_from_another_folder_without_the_repository(wheel, tmp_path):
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import json, envs, mh_train; from mh_train.cli import main; from mh_train.config import compose;"
        "from mh_train.config.compose import config_dir;"
        "print(json.dumps([envs.__file__, mh_train.__file__, str(config_dir()), compose(['experiment=toy']).name]))"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=elsewhere, env=environment, check=True, capture_output=True, text=True
    )
    *places, name = json.loads(done.stdout)
    assert all(Path(place).is_relative_to(site) for place in places)
    assert name == "toy"


def test_changelog_and_citation_speak_of_this_version():
    assert re.search(rf"^version: {re.escape(__version__)}$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert __version__ in changes[:2]
