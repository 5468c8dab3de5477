"""Every command that the documentation shows is one that works.

A shell block that needs a GPU, a network or more than seconds says so in a line `# needs: ...`; its commands are read
(the stage, the settings, the files exist), and so are commands within sentences. All other blocks are run: training as
a dry run, but for the toy, whose real run is what `toy_runs` holds.
"""

import contextlib
import importlib.util
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from pages import PAGES, ROOT, Block, blocks, inline_code, install, write_files

from mh_train.cli import RUN_STAGES, TOOLS, main

SHELL = [block for page in PAGES for block in blocks(page) if block.language in ("bash", "sh", "shell", "console")]
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|\.\.\.|…|[<>|]")
CONFIGS = ROOT / "configs"
SETTINGS = {
    "hydra.searchpath",
    "train",  # of mh-train eval table=NAME
    *re.findall(r"^\| `([a-z_.0-9]+)` \|", (ROOT / "docs" / "configuration.md").read_text(), flags=re.MULTILINE),
}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture
def folder(toy_runs, tmp_path, monkeypatch) -> Path:
    """A working folder as a reader of the page would have it: the repository's scripts, the page's files, a run."""
    for name in ("scripts", "constraints", "configs", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(toy_runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("block", [b for b in SHELL if not b.needs], ids=lambda block: block.place)
def test_a_block_without_needs_runs(block: Block, folder, monkeypatch, capsys):
    write_files(block.page, folder)
    install(folder)
    for words in block.commands():
        words = take_variables(words, monkeypatch)
        if not words:
            continue
        if words[0] == "mh-train" and words[1] in RUN_STAGES and words[2] != "webshop":
            assert main([*words[1:], *([] if "--dry-run" in words else ["--dry-run"])]) == 0, block.place
        elif words[0] == "mh-train":
            with contextlib.suppress(SystemExit):  # argparse's --help
                assert main(words[1:]) == 0, f"{block.place}: {shlex.join(words)}"
            assert "error:" not in capsys.readouterr().err
        else:  # `install` did what this does
            assert words == ["pip", "install", "-e", "."], f"{block.place} is not run: say what it `# needs`"


@pytest.mark.parametrize("block", [b for b in SHELL if b.needs], ids=lambda block: block.place)
def test_a_block_with_needs_names_what_exists(block: Block, folder, monkeypatch):
    for words in block.commands():
        words = take_variables(words, monkeypatch)
        if words:
            check_read(words, block.place)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_within_sentences_exist(page: Path, folder):
    for code in inline_code(page):
        if code.startswith("mh-train ") and not PLACEHOLDER.search(code):
            check_read(shlex.split(code), page.name)


def take_variables(words: list[str], monkeypatch) -> list[str]:
    """`NAME=value command ...` and `export NAME=value`: the command, the variables set."""
    words = words[1:] if words[0] == "export" else words
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        monkeypatch.setenv(*words[0].split("=", 1))
        words = words[1:]
    return words


def check_read(words: list[str], place: str) -> None:
    """The command exists, and so does everything that it names."""
    told = f"{place}: {shlex.join(words)}"
    program, *rest = words
    program = program.removeprefix(".venv/bin/")
    if program == "mh-train":
        check_mh_train(rest, told)
    elif program in ("bash", "sbatch", "source", "python") and rest:
        script = rest[0]
        if script == "-m":
            package = rest[1].split(".")[0]
            assert package in EXTRAS or importlib.util.find_spec(package), told
        else:
            assert script.startswith(".venv/") or (ROOT / script).is_file(), told
            settings = [word for word in rest[1:] if "=" in word and not word.startswith("-")]
            if script.endswith("quickstart.sh"):
                check_mh_train(["run", "experiment=quickstart", *settings], told)
    elif program == "pip":
        check_pip(rest, told)
    else:
        assert program in ("alfworld-download", "mkdocs", "pre-commit", "cd", "git", "torchrun", "accelerate"), told


def check_mh_train(words: list[str], told: str) -> None:
    stages = [word for word in words if word in {**RUN_STAGES, **TOOLS}]
    assert stages or "--help" in words, told
    if stages and stages[0] in RUN_STAGES and words[:2] != ["data", "webshop"]:
        for word in words:
            key, is_setting, value = word.lstrip("+").partition("=")
            if is_setting and not PLACEHOLDER.search(word):
                check_setting(key, value, told)


def check_setting(key: str, value: str, told: str) -> None:
    """A group has the file of each choice; anything else is a setting that docs/configuration.md lists."""
    if (CONFIGS / key).is_dir():
        assert [choice for choice in value.split(",") if not (CONFIGS / key / f"{choice}.yaml").is_file()] == [], told
    else:
        assert key in SETTINGS, f"{told}: there is no setting {key}"


def check_pip(words: list[str], told: str) -> None:
    for extras in re.findall(r"\[([\w,]+)\]", " ".join(words)):
        assert set(extras.split(",")) <= set(EXTRAS), told
    for file in re.findall(r"-[cr] (\S+)", " ".join(words)):
        assert (ROOT / file).is_file(), told
