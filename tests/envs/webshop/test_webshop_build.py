"""Building a store: what is read, what survives a kill, what is refused."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shop_files import ATTRIBUTES, ITEMS, build, write_files

from envs.base import EnvDataError
from envs.webshop import official, parts
from envs.webshop.build import build_store
from envs.webshop.catalog import Product
from envs.webshop.official import JsonFile
from envs.webshop.store import MANIFEST, Store


def test_products_are_cleaned_as_the_original_does(store):
    first, second, third, _, riddle = (store.product(row) for row in range(5))
    assert first.options == {"color": ["wine | red", "blue"], "size": ["big  one"]}
    assert (first.price_tag, first.pricing, first.query) == ("$10.99 to $1020.5", [10.99, 1020.5], "stools")
    assert (second.price_tag, second.bullets) == ("$100.0", ["One text only, weatherproof."])
    assert third.attributes == ["heavy"]
    assert store.product(5).attributes == ["DUMMY_ATTR"]
    assert (riddle.price_tag, store.manifest["counts"]["unreadable_prices"]) == ("$100.0", 1)
    assert first.search_text() == (
        'oak stool <b>tall</b> & "round" a stool\nfor two. made of oak. color: wine | red, blue, and size: big  one'
    )
    assert first.human == [("i want a red stool...", ["sturdy"], ["red", "big one"]), ("not usable", [], [])]
    assert first.nouns == ["oak", "stool", "b", "tall", "b", "round"]


def test_items_without_a_proper_number_and_repeats_are_left_out(store):
    assert len(store) == 65
    assert store.manifest["counts"]["skipped_items"] == 3
    assert store.product(store.row_of("B000000001")).title.startswith("Oak Stool <b>")
    with pytest.raises(KeyError):
        store.row_of("nan")


def test_prices_are_drawn_from_the_range_with_the_catalogue_seed(store, tmp_path):
    assert 10.99 <= store.prices[0] <= 1020.5
    assert store.prices[2] == 995.0
    assert build(tmp_path, seed=8).prices[0] != store.prices[0]


PRODUCT = st.builds(
    Product,
    *[st.text()] * 6,
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=2),
    st.text(),
    st.lists(st.text()),
    st.dictionaries(st.text(), st.lists(st.text())),
    st.lists(st.text()),
    st.none() | st.text(),
    st.lists(st.text()),
    st.lists(st.tuples(st.text(), st.lists(st.text()), st.lists(st.text()))),
    st.lists(st.text()),
)


@settings(deadline=None, max_examples=40)
@given(PRODUCT)
def test_a_product_survives_the_store(product):
    line = product.to_json()
    assert "\n" not in line
    assert Product.from_json(line.encode()) == product


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_files_are_read_in_pieces_of_any_size(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(official, "_CHUNK", chunk)
    items, attributes, _ = write_files(tmp_path)
    assert list(JsonFile(items).items()) == ITEMS
    assert [(key, json.loads(text)) for key, text in JsonFile(attributes).pairs()] == list(ATTRIBUTES.items())


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.floats(allow_nan=False))), st.integers(0, 3)
)
def test_any_list_is_read_as_json_reads_it(tmp_path_factory, data, indent):
    path = tmp_path_factory.mktemp("any") / "list.json"
    path.write_text(json.dumps(data, indent=indent or None, ensure_ascii=bool(indent % 2)), encoding="utf-8")
    assert list(JsonFile(path).items()) == data


def test_gzip_files_give_the_same_store(store, tmp_path):
    packed = []
    for path in write_files(tmp_path):
        packed.append(path.with_suffix(".json.gz"))
        packed[-1].write_bytes(gzip.compress(path.read_bytes()))
    again = build_store(*packed, out=tmp_path / "store", seed=7, nouns="words")
    assert again.manifest["files"] == store.manifest["files"]
    assert again.manifest["sources"] != store.manifest["sources"]


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_files_that_break_off_are_named(tmp_path, kept):
    items, attributes, _ = write_files(tmp_path)
    items.write_bytes(items.read_bytes()[:kept])
    with pytest.raises(EnvDataError, match=r"items\.json is not the JSON that it should be"):
        build_store(items, attributes, out=tmp_path / "store", nouns="words")
    assert not (tmp_path / "store").exists()


def test_a_product_that_lacks_something_is_named(tmp_path):
    incomplete = {key: value for key, value in ITEMS[1].items() if key != "query"}
    with pytest.raises(EnvDataError, match=r"Product B000000002 has no 'query' in .*items\.json"):
        build_store(*write_files(tmp_path, [ITEMS[0], incomplete]), out=tmp_path / "store", nouns="words")


def test_broken_bytes_and_a_missing_file_are_named(tmp_path):
    items, attributes, _ = write_files(tmp_path)
    packed = tmp_path / "items.gz"
    packed.write_bytes(gzip.compress(items.read_bytes())[:-20])
    with pytest.raises(EnvDataError, match="end-of-stream marker"):
        build_store(packed, attributes, out=tmp_path / "store", nouns="words")
    packed.write_bytes(gzip.compress(items.read_bytes())[:100] + bytes(100))
    with pytest.raises(EnvDataError, match="is not the JSON that it should be"):
        build_store(packed, attributes, out=tmp_path / "store", nouns="words")
    packed.write_bytes(b'["\xff"]')
    with pytest.raises(EnvDataError, match="can't decode byte"):
        build_store(packed, attributes, out=tmp_path / "store", nouns="words")
    with pytest.raises(EnvDataError, match="There is no file"):
        build_store(tmp_path / "none.json", attributes, out=tmp_path / "store", nouns="words")


@pytest.mark.parametrize("kill_at", ["attributes", "products", "merging products", "merging postings"])
def test_a_killed_build_goes_on_and_gives_the_same_bytes(store, tmp_path, monkeypatch, kill_at):
    monkeypatch.setattr(parts, "PART", 20)
    monkeypatch.setattr(official, "_CHUNK", 4000)
    told = []

    def kill(what, done, total):
        told.append((what, done, total))
        if what == kill_at and done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, progress=kill)
    written = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "store.building" / "parts").glob("*.npz")}
    assert written or kill_at == "attributes"
    seen = []
    monkeypatch.setattr(parts, "_write_part", lambda *a, real=parts._write_part: (seen.append(a[1]), real(*a)))
    finished = build(tmp_path)
    assert len(seen) == 4 - len(written)
    assert finished.manifest["files"] == store.manifest["files"]
    assert all(0 <= done <= total for _, done, total in told)


def test_several_processes_build_the_same_store(store, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART", 20)
    assert build(tmp_path, workers=2).manifest["files"] == store.manifest["files"]


def test_a_build_of_other_input_starts_afresh(tmp_path, monkeypatch):
    def kill(what, done, total):
        if what == "merging products":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, progress=kill)
    changed = [*ITEMS[:-1], {**ITEMS[-1], "name": "Another Board"}]
    finished = build_store(*write_files(tmp_path, changed), out=tmp_path / "store", seed=7, nouns="words")
    assert finished.product(len(finished) - 1).title == "Another Board"


def test_a_complete_store_is_opened_and_one_of_other_settings_is_refused(tmp_path):
    first = build(tmp_path)
    assert build(tmp_path).manifest == first.manifest
    with pytest.raises(EnvDataError, match="other input, seed or noun lists"):
        build(tmp_path, seed=8)


def test_only_the_first_items_are_read_when_asked(tmp_path):
    assert len(build(tmp_path, limit=3)) == 3


def test_the_manifest_tells_versions_counts_seeds_and_digests(store):
    manifest = store.manifest
    assert manifest["seeds"] == {"catalogue": 7, "goal_order": 233}
    assert manifest["nouns"] == "words"
    assert manifest["counts"]["products"] == 65
    assert {"synthetic_goals", "human_goals", "terms", "postings", "searchable"} <= set(manifest["counts"])
    assert set(manifest["sources"]) == {"items", "attributes", "human"}
    assert {"python", "numpy", "regex"} == set(manifest["versions"])
    store.check()


def test_a_store_that_is_not_what_was_written_is_refused(tmp_path):
    path = build(tmp_path).path
    manifest = json.loads((path / MANIFEST).read_text())

    (path / MANIFEST).write_text(json.dumps({**manifest, "format": 0}))
    with pytest.raises(EnvDataError, match=r"has format 0, this program reads format 1\. Build it again"):
        Store(path)
    (path / MANIFEST).write_text("{")
    with pytest.raises(EnvDataError, match="cannot be read"):
        Store(path)
    (path / MANIFEST).write_text(json.dumps(manifest))

    whole = (path / "products.bin").read_bytes()
    (path / "products.bin").write_bytes(whole[:-1])
    with pytest.raises(EnvDataError, match=rf"products\.bin .* has {len(whole) - 1} bytes instead of {len(whole)}"):
        Store(path)
    (path / "products.bin").write_bytes(whole[:-1] + b"!")
    with pytest.raises(EnvDataError, match=r"products\.bin .* is damaged"):
        Store(path).check()
    (path / "products.bin").unlink()
    with pytest.raises(EnvDataError, match="has 0 bytes"):
        Store(path)
    with pytest.raises(EnvDataError, match=r"There is no WebShop store .*mh-train data webshop"):
        Store(tmp_path / "nowhere")


def test_a_catalogue_without_products_goals_or_words_is_a_store_too(tmp_path):
    empty = build_store(*write_files(tmp_path, [], {}, {}), out=tmp_path / "store", nouns="words")
    assert (len(empty), len(empty.goals["synthetic"]), empty.rows_with("category", "garden")) == (0, 0, [])
