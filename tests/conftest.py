"""What tests of several rooms share: a browser, where there is one; a process for all that need vLLM."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background; tests press Ctrl-C in children
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """A file runs in one process, and all that start vLLM in the same one: importing it takes as long as many tests."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "vllm" if "test_vllm" in file else file

    return ByFile(config, log)


@pytest.fixture(scope="module")  # its event loop may not outlive the module: others run their own
def chromium() -> Iterator[object]:
    """Headless Chromium; the tests that need it say so and are skipped where it is not installed."""
    browser = pytest.importorskip("browser", reason="playwright is not installed: pip install -e '.[dev]'")
    try:
        with browser.chromium() as opened:
            yield opened
    except browser.NoBrowser as error:
        pytest.skip(str(error))
