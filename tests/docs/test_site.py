"""The site builds without a warning: every page is in the navigation, every link and anchor leads somewhere."""

import os
import re
import subprocess
import sys

import pytest
from pages import FENCE, PAGES, ROOT

CODE_PATH = re.compile(r"`((?:mh_train|envs|configs|tests|scripts|docs|constraints)/[\w./-]+)`")


def test_the_site_builds_strictly(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    html = (tmp_path / "site" / "index.html").read_text()
    assert not re.findall(r'(?:src|href)="https?://[^"]+\.(?:js|css|woff2?)"', html), "the site fetches something"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    text = page.read_text()
    named = [path for path in CODE_PATH.findall(text) if "NAME" not in path]
    assert [path for path in named if not (ROOT / path).exists()] == []
    links = re.findall(r"\]\(((?!https?:|#)[^)#]+)", FENCE.sub("", text))
    assert [link for link in links if not (page.parent / link).exists()] == []
