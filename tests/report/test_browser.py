"""Two runs in one report in a real browser: everything can be clicked, nothing breaks, nothing hostile runs.

The pictures are left in `build/screenshots/hostile`.
"""

import re
from pathlib import Path

import pytest
from run_parts import write_run

from mh_train.stages.report import main

PICTURES = Path(__file__).resolve().parents[2] / "build" / "screenshots" / "hostile"


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    out = root / "report.html"
    main([str(write_run(root, "hostile")), str(write_run(root, "second")), "--out", str(out)])
    return out


def test_all_of_it_can_be_worked_at_three_widths_light_and_dark(chromium, report):
    from browser import TABS, walk

    result = walk(chromium, report, PICTURES)
    assert not result.faults, "\n".join(sorted(set(result.faults)))
    assert result.worked > 100
    assert {f"#{tab}" for tab in TABS} < result.followed
    assert len(list(PICTURES.glob("*.png"))) >= 8


def test_hostile_text_is_shown_as_text(chromium, report):
    from browser import opened

    with opened(chromium, report) as visit:
        visit.page.evaluate("visit('#episodes/0/u00001-g000-e0')")
        shown = visit.page.inner_text("main")
        assert "<script>window.harmed = true" in shown
        assert "</script></style>" in shown
        assert re.search("lone .{1,2} surrogate, NUL .?, turned", shown)
        assert visit.page.evaluate("window.harmed") is None
        assert visit.faults == []


def test_a_record_shows_what_each_view_of_the_verifier_said(chromium, report):
    from browser import opened

    with opened(chromium, report) as visit:
        visit.page.evaluate("visit('#bank/0/m000')")
        table = visit.page.inner_text("[aria-label='Views of the verifier']")
        assert "0.90 ± 0.10" in table and "risk" in table and "full </script>" in table
        assert "unread 1" in visit.page.inner_text("main") and visit.faults == []


def test_the_page_computes_the_interval_that_the_evaluation_computed(chromium, report):
    from browser import opened

    from mh_train.evaluate.statistics import TaskValues, paired_bootstrap

    values = [{str(i): float((i + shift) % 2 == 0) for i in range(4)} for shift in (0, 1)]
    known = paired_bootstrap(TaskValues("abc", values[0]), TaskValues("abc", values[1]))
    with opened(chromium, report) as visit:
        visit.page.evaluate("visit('#compare?a=0/trained/test/memory&b=1/trained/test/replay')")
        shown = visit.page.inner_text("main")
        assert f"{known.low:g} to {known.high:g}" in shown
        assert "from this page" in shown


def test_an_address_leads_back_to_the_same_view(chromium, report):
    from browser import opened

    with opened(chromium, report) as visit:
        visit.page.evaluate("visit('#episodes?outcome=won&memory=accepted')")
        assert visit.page.input_value("select[name=outcome]") == "won"
        visit.page.click("main tbody a")
        visit.page.wait_for_function("location.hash.startsWith('#episodes/')")
        visit.page.go_back()
        visit.page.wait_for_function("location.hash.includes('outcome=won')")
