"""Every page and action of the shop, in both observation modes; what broke the original gets an ordinary answer."""

import pytest

from envs.base import EnvDataError, Task
from envs.check import check_env
from envs.webshop.actions import parse
from envs.webshop.env import WebShopEnv
from envs.webshop.goals import read_goal

PARITY = {"leak_reward": True, "click_search": True}


@pytest.fixture
def goal_of(store):
    """The number and text of the stool goal with the wine red color, and of the human stool goal."""

    def find(kind="synthetic"):
        for number in range(len(store.goals[kind])):
            goal = read_goal(store, kind, number)
            if goal.row == 0 and "blue" not in goal.instruction:
                return number, goal.instruction
        raise AssertionError

    return find


@pytest.fixture
def at_item(shop, goal_of):
    """`at_item(**options)` -> (environment, goal text) on the page of the stool."""

    def enter(**chosen):
        number, text = goal_of(chosen.get("goals", "synthetic"))
        env, _ = shop(number, **chosen)
        env.step("search[oak stool]")
        env.step("click[b000000001]")
        return env, text

    return enter


def test_the_start_page(shop, goal_of):
    number, goal = goal_of()
    _, start = shop(number)
    assert start.text == f"WebShop [SEP] Instruction: [SEP] {goal} [SEP] Search"
    assert start.shown == "'Search'"
    assert start.goal == goal
    assert start.admissible == ("search[<your query>]",)
    _, start = shop(number, observation="text_rich", **PARITY)
    assert start.text == f"WebShop\nInstruction: \n{goal}\n[button] Search [button_]\n"
    assert start.shown == "[button] Search [button_]\n"
    assert start.admissible == ("search[<your query>]", "click[search]")


def test_the_results_page(shop, goal_of):
    number, goal = goal_of()
    env, _ = shop(number)
    page = env.step("search[oak stool]")
    assert page.text == (
        f"Instruction: [SEP] {goal} [SEP] Back to Search [SEP] Page 1 (Total results: 2) [SEP] Next > [SEP] B000000001 "
        '[SEP] Oak Stool <b>Tall</b> & "Round" [SEP] $10.99 to $1020.5 [SEP] B000000002 [SEP] Pine Stool [SEP] $100.0'
    )
    assert page.shown.startswith("'Back to Search' [SEP] 'Page 1 (Total results: 2)' [SEP] 'Next >' [SEP] 'B000000001'")
    assert page.admissible == (*("click[back to search]", "click[next >]", "click[b000000001]", "click[b000000002]"),)
    env, _ = shop(number, observation="text_rich")
    env.step("search[oak stool]")
    env.step("click[b000000002]")
    assert env.step("click[< prev]").text == (
        f"Instruction:\n{goal}\n[button] Back to Search [button_]\nPage 1 (Total results: 2)\n"
        '[button] Next > [button_]\n\n[button] B000000001 [button_]\nOak Stool <b>Tall</b> & "Round"\n'
        "$10.99 to $1020.5\n\n[clicked button] B000000002 [clicked button_]\nPine Stool\n$100.0\n"
    )


def test_paging_has_no_end(shop):
    env, _ = shop()
    first = env.step("search[board]")
    assert "Page 1 (Total results: 50)" in first.text and "click[< prev]" not in first.admissible
    second = env.step("click[next >]")
    assert "Page 2 (Total results: 50)" in second.text and "click[< prev]" in second.admissible
    assert set(first.admissible).isdisjoint({a for a in second.admissible if a.startswith("click[b0")})
    for _ in range(5):
        past = env.step("click[next >]")
    assert past.shown == "'Back to Search' [SEP] 'Page 7 (Total results: 50)' [SEP] '< Prev' [SEP] 'Next >'"
    for _ in range(6):
        back = env.step("click[< prev]")
    assert back == first


def test_the_item_page_and_its_options(at_item):
    env, goal = at_item()
    page = env.step("click[wine | red]")
    assert page.text == (
        f"Instruction: [SEP] {goal} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] wine | red [SEP] blue [SEP] "
        'size [SEP] big  one [SEP] Oak Stool <b>Tall</b> & "Round" [SEP] Price: $10.99 to $1020.5 [SEP] '
        "Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert page.admissible == tuple(
        f"click[{text}]"
        for text in (
            *("back to search", "< prev", "description", "features", "reviews", "buy now"),
            *("wine | red", "blue", "big  one"),
        )
    )
    assert env.url.endswith('/B000000001/oak+stool/1/{"color": "wine | red"}')
    env, goal = at_item(observation="text_rich", show_attributes=True)
    env.step("click[big  one]")
    page = env.step("click[blue]")
    assert page.text == (
        f"You have clicked big  one.\nYou have clicked blue.\nInstruction:\n{goal}\n[button] Back to Search [button_]\n"
        "[button] < Prev [button_]\ncolor\n  [button] wine | red [button_]\n  [clicked button] blue [clicked button_]\n"
        'size\n  [clicked button] big  one [clicked button_]\nOak Stool <b>Tall</b> & "Round"\n'
        "Price: $10.99 to $1020.5\nRating: N.A.\n[button] Description [button_]\n[button] Features [button_]\n"
        "[button] Reviews [button_]\n[button] Attributes [button_]\n[button] Buy Now [button_]\n"
    )
    assert page.shown.startswith("[button] Back to Search")


def test_the_four_sub_pages(at_item):
    env, _ = at_item(show_attributes=True)
    head = "'Back to Search' [SEP] '< Prev'"
    for name, body in (
        ("description", ["A stool\nfor two."]),
        ("features", ["Made of oak.", "", "Won't wobble; it is Sturdy."]),  # of bare line breaks nothing stays
        ("reviews", []),
        ("attributes", ["hand made", "sturdy", "garden", "stools", "Home › Seats › Stools"]),
    ):
        page = env.step(f"click[{name}]")
        assert page.shown == " [SEP] ".join([head, *(f"'{text}'" for text in body)])
        assert page.admissible == ("click[back to search]", "click[< prev]")
        assert "click[buy now]" in env.step("click[< prev]").admissible


def test_the_last_page_with_and_without_the_reward(at_item):
    env, _ = at_item(**PARITY)
    env.step("click[blue]")
    leaking = env.step("click[buy now]")
    assert leaking.text == (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk interface.) [SEP] "
        'Purchased [SEP] asin [SEP] B000000001 [SEP] options [SEP] {"color": "blue"} [SEP] attrs [SEP] None [SEP] '
        "category [SEP] None [SEP] query [SEP] None [SEP] product category [SEP] None [SEP] Target [SEP] asin [SEP] "
        "options [SEP] attrs [SEP] price upper [SEP] instuction text [SEP] category [SEP] product category [SEP] query "
        f"[SEP] Goal [SEP] None [SEP] Reward [SEP] Your score (min 0.0, max 1.0) [SEP] {leaking.score} [SEP] "
        "Reward Details [SEP] None"
    )
    assert leaking.done and leaking.admissible == () and leaking.for_prompt() == leaking.text
    env, _ = at_item()
    env.step("click[blue]")
    silent = env.step("click[buy now]")
    assert leaking.text.startswith(silent.text + " [SEP] Reward")
    assert silent.score == leaking.score > 0


def test_quotes_and_brackets_in_options_are_escaped_on_the_last_page(at_item):
    from envs.webshop.pages import done_page, plain

    assert r'{"a": "\u003cb\u003e\u0026\u0027\"", "\u00e9": "1"}' in plain(
        done_page("B1", {"é": "1", "a": "<b>&'\""}, None)
    )


def test_a_purchase_reports_task_score_and_success(at_item):
    env, _ = at_item(goals="human")
    env.step("click[wine | red]")
    env.step("click[big one]")  # the rollout collapses blanks
    end = env.step("click[buy now]")
    assert (end.score, end.won, end.done) == (1.0, True, True)
    assert end.info["reward"]["r_option"] == 1.0
    after = env.step("click[blue]")
    assert (after.accepted, after.done, after.score, after.text) == (False, True, end.score, end.text)
    assert not env.step("search[stool]").done  # as in the original


def test_options_and_seen_products_are_forgotten_where_the_original_forgets_them(at_item):
    env, _ = at_item(observation="text_rich")
    env.step("click[blue]")
    assert "[clicked button] B000000001" in env.step("click[< prev]").text
    assert "You have clicked" not in env.step("click[b000000001]").text
    env.step("click[back to search]")
    assert "[clicked button]" not in env.step("search[oak stool]").text


def test_search_works_on_every_page(at_item):
    env, _ = at_item()
    for before in ("click[description]", "click[back to search]", "search[pine]", "click[buy now]"):
        env.step(before)
        page = env.step("search[oak]")
        assert page.accepted and "'B000000001'" in page.shown


@pytest.mark.parametrize(
    "action",
    [
        *("", "click", "click[]", "search[]", "Click[search]", "click[no such button]", "click[search]", "buy now"),
        *("a and click[x]", "search[a[b]]", "\nsearch[x]", "search[<a> stool]", "search[<c>]", "search[x\n]"),
    ],
)
def test_other_actions_change_nothing(shop, action):
    env, start = shop()
    page = env.step(action)
    assert (page.accepted, page.text, page.admissible, page.done, page.score) == (
        False,
        start.text,
        start.admissible,
        False,
        0,
    )


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search[a b]", ("search", "a b")),
        ("click[Buy Now] please", ("click", "buy now")),
        ("search[a[b]]", ("search[a", "b]")),
        ("search[a]b]", ("search", "a]b")),
        ("search[[]", ("search", "[")),
        ("[x]", ("", "")),
        ("search[]", ("", "")),
        ("a[b]c[", ("a", "b")),
    ],
)
def test_actions_are_parsed_as_the_originals_pattern_does(action, parsed):
    assert parse(action) == parsed


def test_parsing_equals_the_originals_pattern_on_all_short_texts():
    import itertools
    import re

    for letters in itertools.product("a[]\n", repeat=6):
        text = "".join(letters)
        found = re.match(r"(.+)\[(.+)\]", text)
        assert parse(text) == (found.groups() if found else ("", "")), text


@pytest.mark.parametrize(
    "words",
    [
        "oak \x00\x07\u202e stool",
        "x" * 1_000_000,
        "oak " * 250_000,
        "[" * 1_000_000,
        " ".join(f"w{i}" for i in range(2000)),
        "<b>" * 10,
        "%s {0} \\ ' \"",
        "日本語 🛒",
        "<r>" * 2,
        "<q>",
        "<c> ",
    ],
)
def test_any_text_gets_an_ordinary_answer(shop, words):
    env, start = shop()
    page = env.step(f"search[{words}]")
    assert page.text == start.text if not page.accepted else "Total results" in page.text
    assert env.step("click[back to search]" if page.accepted else "search[oak]").accepted


def test_the_searches_that_are_commands(shop):
    env, _ = shop()
    assert "(Total results: 63)" in env.step("search[<c> garden]").text
    assert "'B000000004'" in env.step("search[<c> fashion]").shown
    assert "(Total results: 60)" in env.step("search[<q> boards]").text  # all of them, not 50
    drawn = env.step("search[<r>]")
    assert "(Total results: 50)" in drawn.text
    assert env.step("search[<r> anything]").text == drawn.text
    other, _ = shop(1)
    assert other.step("search[<r>]").shown != drawn.shown


def test_the_originals_confusion_by_page_names_in_a_query_is_kept(shop):
    """It looks for page names anywhere in the address."""
    env, _ = shop()
    env.step("search[search_results oak stool]")
    env.step("click[b000000001]")
    assert "Page 0 (" in env.step("click[< prev]").text


def test_a_goal_text_with_the_separator_in_it_is_no_problem(shop, goal_of, monkeypatch):
    number, _ = goal_of()
    env, _ = shop(number)
    env._episode.goal = env._episode.goal.__class__(number, 0, "a [SEP] b", ["x"], {}, 1.0)
    assert env.step("search[pine]").shown.startswith("'Back to Search' [SEP]")


def test_one_process_holds_many_episodes_that_do_not_disturb_each_other(store, goal_of):
    number, _ = goal_of()
    envs = [WebShopEnv(store=str(store.path)) for _ in range(128)]
    starts = [env.reset(Task("", "webshop", "", "", {"goal": number if i % 2 else 0})) for i, env in enumerate(envs)]
    for env in envs[::2]:
        env.step("search[oak stool]")
    for env, start in zip(envs[1::2], starts[1::2], strict=True):
        assert env.step("click[nothing]").text == start.text
    assert len({id(env._store) for env in envs}) == 1


def test_the_contract_holds(store, mini):
    report = check_env("webshop", mini, n_tasks=4)
    assert report.ok, str(report)
    report = check_env(
        "webshop", {"store": str(store.path), "goals": "human", "observation": "text_rich", **PARITY}, "test"
    )
    assert [line for line in str(report).splitlines() if "BROKEN" in line] == []


def test_task_types_are_the_official_categories(store, mini):
    assert {task.type for task in WebShopEnv.tasks("test", **mini)} == {
        "beauty",
        "electronics",
        "fashion",
        "garden",
        "grocery",
    }
    assert {task.type for task in WebShopEnv.tasks("test", store=str(store.path))} == {"garden"}
    assert len(WebShopEnv.tasks("test", **mini, most_tasks=7)) == 7


def test_wrong_options_and_missing_stores_are_sentences(tmp_path):
    with pytest.raises(ValueError, match=r"env\.options\.observation is 'html'; choose text or text_rich"):
        WebShopEnv(store="x", observation="html")
    with pytest.raises(EnvDataError, match="There is no WebShop store"):
        WebShopEnv(store=str(tmp_path / "none"))
    with pytest.raises(TypeError, match="colour"):
        WebShopEnv(store="x", colour=1)


def test_a_page_may_show_fewer_products(shop):
    env, _ = shop(page_size=3)
    first = env.step("search[shelf board]")
    products = [action for action in first.admissible if action.startswith("click[b0")]
    second = env.step("click[next >]")
    more = [action for action in second.admissible if action.startswith("click[b0")]
    assert len(products) == len(more) == 3
    assert not set(products) & set(more)
    bought = env.step(more[2])
    assert bought.accepted
    assert env.step("click[< prev]").text == second.text
    with pytest.raises(ValueError, match="at least one product"):
        shop(page_size=0)
