"""Opens a report in headless Chromium and goes through all of it, as a person would who tries everything.

Run on any report: `python tests/browser.py runs/quickstart/report.html build/screenshots`. Without words it only starts
the browser.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

HELPERS = Path(__file__).with_name("browser.js").read_text(encoding="utf-8")
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
MISSING = "NO BROWSER TEST RAN, for no Chromium starts here: bash scripts/browser.sh, or apt-get install chromium"
TABS = ("overview", "training", "episodes", "bank", "compare")
WINDOWS = ((360, "light"), (800, "dark"), (1280, "light"), (1280, "dark"))


class NoBrowser(RuntimeError):
    """No browser starts."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium: the system's, else Playwright's own. Raises `NoBrowser`."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    with sync_playwright() as tool:
        try:
            browser = tool.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        except Error as error:
            raise NoBrowser(MISSING) from error
        yield browser
        browser.close()


@dataclass
class Visit:
    """A report in a tab of the browser; `faults` is everything that a reader must never meet."""

    page: Page
    faults: list[str] = field(default_factory=list)
    worked: int = 0
    followed: set[str] = field(default_factory=set)

    def look(self, name: str) -> None:
        """Measure what is shown now: faint text, controls without a name, a page wider than the window."""
        width = self.page.viewport_size["width"]
        self.faults += [f"{name} at {width}: faint text {text}" for text in self.page.evaluate("faint()")]
        self.faults += [f"{name} at {width}: no name for {text}" for text in self.page.evaluate("nameless()")]
        if (wider := self.page.evaluate("overflow()")) > 0:
            self.faults.append(f"{name} at {width}: {wider} pixels wider than the window")


@contextmanager
def opened(browser: Browser, report: Path, width: int = 1280, theme: str = "light") -> Iterator[Visit]:
    """The report in a fresh window; console errors, exceptions and every request but the file's own are faults."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    visit = Visit(context.new_page())
    visit.page.on("console", lambda m: visit.faults.append(m.text) if m.type in ("error", "warning") else None)
    visit.page.on("pageerror", lambda error: visit.faults.append(str(error)))
    visit.page.on("request", lambda r: None if r.url.startswith("file:") else visit.faults.append(f"asked for {r.url}"))
    visit.page.goto(report.resolve().as_uri())
    visit.page.wait_for_function("document.body.dataset.shown")
    visit.page.evaluate(
        f"() => {{ {HELPERS}; Object.assign(window, {{ visit, work, faint, nameless, links, overflow }}) }}"
    )
    yield visit
    context.close()


def work_everything(visit: Visit, most_links: int = 400) -> None:
    """Every tab, control and link; links are followed through to the end of what they lead to."""
    for tab in TABS:
        visit.page.click(f"#tabs a[href='#{tab}']")
        visit.page.wait_for_function(f"location.hash.startsWith('#{tab}')")
        visit.page.evaluate("visit(location.hash)")
        visit.worked += visit.page.evaluate("work()")
        visit.look(tab)
    waiting = [f"#{tab}" for tab in TABS]
    while waiting and len(visit.followed) < most_links:
        link = waiting.pop(0)
        if link not in visit.followed:
            visit.followed.add(link)
            waiting += visit.page.evaluate("async (hash) => { await visit(hash); return links(); }", link)
            if "is not in this report" in visit.page.inner_text("main"):
                visit.faults.append(f"{link} leads nowhere")


def walk(browser: Browser, report: Path, pictures: Path) -> Visit:
    """Work everything once; then look at every kind of view in all windows and keep pictures."""
    with opened(browser, report) as first:
        work_everything(first)
    views = {tab: f"#{tab}" for tab in TABS}
    for kind in ("episodes/", "bank/", "compare/"):
        deep = sorted(link for link in first.followed if link.startswith(f"#{kind}") and link.count("/") >= 2)
        views |= {f"{kind[:-1]}-one": deep[-1]} if deep else {}
    pictures.mkdir(parents=True, exist_ok=True)
    for width, theme in WINDOWS:
        with opened(browser, report, width, theme) as visit:
            for name, link in views.items():
                visit.page.evaluate("(hash) => visit(hash)", link)
                visit.page.evaluate(
                    "document.querySelectorAll('main details').forEach((fold) => { fold.open = true; })"
                )
                visit.look(name)
                visit.page.screenshot(path=pictures / f"{name}-{width}-{theme}.png", full_page=name != "training")
            first.faults += visit.faults
    return first


if __name__ == "__main__":
    with chromium() as browser:
        if not sys.argv[1:]:
            sys.exit(0)
        result = walk(browser, Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{result.worked} controls worked, {len(result.followed)} links followed, {len(result.faults)} faults")
    print("\n".join(sorted(set(result.faults))))
    sys.exit(bool(result.faults))
