"""A report holds what its run folder holds, within its size, without secrets, whatever the texts are."""

import re
import shutil
from dataclasses import replace

import pytest
from run_parts import GROUP, LONG, SCRIPT, UPDATES, blocks_of, episode, write_run

from mh_train.report.build import Options, build, spread
from mh_train.report.cells import cell_page, cell_pages
from mh_train.report.episodes import page
from mh_train.report.source import ReportError
from mh_train.rollout.writer import write_trajectories
from mh_train.stages.report import main, read_part


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def report(run):
    return build([read_part(run)])


def test_hostile_text_is_nowhere_in_the_markup(report):
    markup = re.sub(r'id="data-[^"]+">[A-Za-z0-9+/=]*</script>', "", report)
    assert "harmed" not in markup
    assert markup.count("<script") == len(blocks_of(report)) + 1
    assert re.search(r"(src|href)\s*=\s*[\"']?(https?:|//)", markup) is None


def test_every_episode_is_in_the_index_and_its_story_is_whole(report):
    blocks = blocks_of(report)
    assert len(blocks["0-index"]["columns"]["id"]) == UPDATES * GROUP + 8
    page = blocks["0-u1"]
    story = page["episodes"]["u00001-g000-e0"]
    assert [turn["kind"] for turn in story["turns"]] == ["act", "reconstruct", "act"]
    assert story["turns"][0]["logprobs"] == [-0.1, -2.0, -9.0]
    assert story["asked"][0]["hits"][0]["terms"] == {"cosine": 0.5}
    assert SCRIPT in page["strings"][story["steps"][0]["seen"]]


def test_an_evaluated_episode_is_whole_while_there_is_room(run, report):
    story = blocks_of(report)["0-cell0"]["episodes"]["trained:test:memory:s0:0"]
    assert [turn["kind"] for turn in story["turns"]] == ["act", "reconstruct", "act"]
    assert story["asked"][0]["hits"][0]["terms"] == {"cosine": 0.5}
    cells = read_part(run).run.cells
    pages, tasks = cell_pages(cells, {}, room=0)
    assert (tasks, len(pages)) == (0, 2)
    short = cell_page(cells[0], {}, 1)["episodes"]
    assert ["turns" in one for one in short.values()] == [True, False, False, False]
    assert short["trained:test:memory:s0:1"]["actions"] == [f"look {SCRIPT}"]


def test_a_megabyte_line_is_cut_with_a_note(report):
    page = blocks_of(report)["0-u1"]
    shown = page["strings"][page["episodes"][f"u00001-g000-e{GROUP - 1}"]["steps"][0]["seen"]]
    assert shown.startswith("wordword")
    assert f"{len(LONG) - 20_000:,} more characters" in shown
    assert len(report) < 300_000


def test_no_secret_leaves_the_run_folder(run, report):
    assert "sesame" in (run / "config.yaml").read_text()
    assert "sesame" not in str(blocks_of(report))


def test_health_is_said_in_words(report):
    told = [flag["text"] for flag in blocks_of(report)["main"]["runs"][0]["flags"]]
    assert "Policy collapsed: entropy 0.0033 since update 1." in told
    assert "learn/loss is not a finite number in updates 1, 2, 3." in told


def test_the_bank_keeps_the_life_of_each_record(report):
    bank = blocks_of(report)["0-bank"]
    lives = {record["id"]: record["state"] for record in bank["records"]}
    assert lives == {"m000": "active", "m001": "active", "m002": "active", "m003": "archived"}
    assert [event["kind"] for event in bank["events"]] == ["verify", "conflict", "reject", "prune"]
    assert [use[1:3] for use in bank["uses"]] == [[2, 2]] * 3
    assert bank["composition"][-1]["states"] == {"active": 3, "archived": 1}
    assert all(row not in [i for i, _ in near] for row, near in enumerate(bank["near"]))


def test_a_small_limit_keeps_whole_updates_spread_over_the_run(run):
    full = blocks_of(build([read_part(run)]))["main"]["runs"][0]["stories"]
    none = blocks_of(build([read_part(run)], Options(megabytes=0)))["main"]["runs"][0]["stories"]
    assert sorted(full["blocks"]) == ["1", "2", "3"]
    assert none == {"blocks": {}, "updates": UPDATES, "tasks": 0}
    assert list(spread(range(1, 10))) == [9, 1, 5, 3, 7, 2, 4, 6, 8]


def test_of_an_update_that_is_too_large_whole_groups_are_kept(tmp_path):
    path = tmp_path / "update-00001.jsonl"
    groups = [[replace(episode(1, n), id=f"g{g}-e{n}", group=g) for n in range(2)] for g in range(4)]
    write_trajectories(path, [one for group in groups for one in group])
    assert list(page(path, {}, share=0.5)["episodes"]) == ["g0-e0", "g0-e1", "g1-e0", "g1-e1"]
    assert list(page(path, {}, share=0.01)["episodes"]) == ["g0-e0", "g0-e1"]


def test_a_run_of_which_little_is_there_has_a_report(run, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(run / "config.yaml", bare)
    out = tmp_path / "report.html"
    assert main([str(run), str(bare), "--out", str(out)]) == 0
    runs = blocks_of(out.read_text())["main"]["runs"]
    assert [one["bank"] for one in runs] == [True, False]
    assert runs[1]["flags"][0]["text"] == "No update is finished yet."


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("metrics.jsonl", '3\n{"update": 1, "learn/loss": "x"}\n{"upd'),
        ("metrics.jsonl", "\udcff\n"),
        ("eval/eval.json", '{"panels": [1], "modes": 3, "seeds": "x"}'),
        ("eval/eval.json", '{"panels": {"test": 3}, "modes": {}, "seeds": ["a"], "results": {"test": 1}}'),
        ("eval/cells/test.memory.0.jsonl", '{}\n3\n{"asked": [3], "actions": 7}\n'),
        ("eval/cells/test.memory.0.jsonl", '{}\n{"success": "yes", "truncated": null, "task": []}\n'),
        ("eval/trajectories/test.memory.0.jsonl", '{"id": 1, "steps": 5}\n3\n{"id": 2, "task_id": "", "turns": [2]}\n'),
        ("trajectories/update-00001.jsonl", '{"id": 1, "steps": 5}\n3\n{"id": 2, "group": [], "turns": [2]}\n\udcff'),
        ("trajectories/update-x.jsonl", "{}"),
        ("bank/journal.jsonl", "garbage\n\udcff"),
        ("env.json", '"text"'),
        ("model/tokenizer.json", "{"),
    ],
)
def test_a_folder_with_nonsense_in_it_has_a_report_without_it(run, tmp_path, file, text):
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    (broken / file).parent.mkdir(exist_ok=True)
    (broken / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert blocks_of(build([read_part(broken)]))["main"]["runs"][0]["name"] == "hostile"


def test_a_damaged_line_costs_one_episode(run, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    with open(broken / "trajectories" / "update-00001.jsonl", "a") as file:
        file.write('{"id": "cut')
    assert len(blocks_of(build([read_part(broken)]))["0-index"]["columns"]["id"]) == UPDATES * GROUP + 8


def test_what_is_no_run_folder_is_said_in_a_sentence(tmp_path):
    with pytest.raises(ReportError, match="is not a run folder"):
        read_part(tmp_path)
