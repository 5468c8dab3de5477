"""What WebShop costs: building, loading, CPU per action and memory, at 1k and 100k products (1M with --million).

    python tests/bench/bench_webshop.py [--million] [--keep DIR]

The catalogues are synthetic (words with Zipf frequencies, about 100 per product). Peers measured in the same run:
scoring every posting (against search with early termination), and one parsed copy of the catalogue per process (the
original's layout, against the shared store). The original's own times, recorded at 1000 products on two cores with
Java and Flask, are printed beside ours for orientation.
"""

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from envs.base import Task
from envs.webshop import analyzer
from envs.webshop.build import build_store
from envs.webshop.env import WebShopEnv
from envs.webshop.search import RESULTS, Searcher
from envs.webshop.store import Store

ORIGINAL_MS = {"reset": 8.5, "search": 96.0, "item": 128.0, "buy": 135.0}
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "os")]
EPISODES, PROCESSES = 128, 4
MOST_TEXTS = 20_000


def vocabulary(size, rng):
    words = set()
    while len(words) < size:
        words.add("".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))))
    return sorted(words)


def write_catalogue(folder, products):
    """Official-format files of so many products."""
    rng = random.Random(1)
    words = vocabulary(60_000, rng)
    rng.shuffle(words)
    weights = np.cumsum(1 / np.arange(1, len(words) + 1)).tolist()
    with (folder / "items.json").open("w") as items, (folder / "attributes.json").open("w") as attributes:
        items.write("[")
        attributes.write("{")
        for i in range(products):
            text = rng.choices(words, cum_weights=weights, k=105)
            asin = f"B{i:09d}"
            item = {
                "asin": asin,
                "name": " ".join(text[:12]),
                "full_description": " ".join(text[12:70]),
                "small_description": [" ".join(text[70:95]), " ".join(text[:20])],
                "pricing": f"${rng.uniform(5, 90):.2f}",
                "category": rng.choice(("beauty", "fashion", "garden")),
                "query": " ".join(text[:2]),
                "product_category": f"{text[0]} › {text[1]}",
                "customization_options": {"color": [{"value": word} for word in text[95:99]]},
            }
            entry = {
                "attributes": text[3:6],
                "instruction": f"find me {text[0]} {text[1]}",
                "instruction_attributes": text[3:5],
            }
            items.write(("," if i else "") + json.dumps(item))
            attributes.write(("," if i else "") + f"{json.dumps(asin)}:{json.dumps(entry)}")
        items.write("]")
        attributes.write("}")


def queries(store, n):
    """Nine words of a title or description: what agents search for."""
    rng = random.Random(2)
    products = [store.product(rng.randrange(len(store))) for _ in range(n)]
    return [" ".join(rng.sample(p.title.split() + p.description.split()[:8], 9)) for p in products]


def every_posting(store, words):
    """The peer: add up all postings of all terms, then take the best."""
    scores = np.zeros(len(store))
    for term in set(analyzer.analyze(words)):
        at = store.terms.find(term)
        if at is not None:
            postings = slice(int(store.posting_start[at]), int(store.posting_start[at + 1]))
            scores[store.posting_row[postings]] += store.posting_impact[postings]
    best = np.argpartition(-scores, RESULTS)[:RESULTS]
    return best[np.argsort(-scores[best])]


def cpu_ms(call, cases):
    start = time.process_time()
    for case in cases:
        call(case)
    return (time.process_time() - start) / len(cases) * 1000


def bench_actions(path):
    """CPU ms of each kind of action."""
    env = WebShopEnv(store=str(path))
    words = queries(Store(path), 200)
    spent = dict.fromkeys(ORIGINAL_MS, 0.0)
    for number, query in enumerate(words):
        task = Task("", "webshop", "train", "", {"goal": number})
        shown = None
        for kind in spent:
            start = time.process_time()
            if kind == "reset":
                shown = env.reset(task)
            elif kind == "search":
                shown = env.step(f"search[{query}]")
            else:
                shown = env.step(shown.admissible[2] if kind == "item" else "click[buy now]")
            spent[kind] += (time.process_time() - start) * 1000 / len(words)
    return spent


def memory_mb():
    """(RSS, PSS, private) of this process: PSS divides every shared page by the processes that map it."""
    lines = [line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]]
    kb = {words[0]: int(words[1]) for words in lines}
    return kb["Rss:"] / 1024, kb["Pss:"] / 1024, (kb["Private_Clean:"] + kb["Private_Dirty:"]) / 1024


def play(path, ready, measure, done):
    """One process with its share of the episodes."""
    envs = [WebShopEnv(store=str(path)) for _ in range(EPISODES // PROCESSES)]
    words = queries(Store(path), len(envs))
    for number, (env, query) in enumerate(zip(envs, words, strict=True)):
        env.reset(Task("", "webshop", "train", "", {"goal": number}))
        env.step(env.step(f"search[{query}]").admissible[2])
    report(ready, measure, done, envs)


def hold_copy(path, ready, measure, done):
    """The peer: the catalogue parsed into this process."""
    report(ready, measure, done, json.loads((path / "items.json").read_text()))


def report(ready, measure, done, held):
    """Tell this process' memory once all processes hold what they hold."""
    ready.put(len(held))
    measure.wait()
    ready.put(memory_mb())
    done.wait()


def memory(target, path, processes):
    """(RSS, PSS, private) MB summed over processes that run at the same time."""
    context = multiprocessing.get_context("spawn")
    ready, measure, done = context.Queue(), context.Event(), context.Event()
    running = [context.Process(target=target, args=(path, ready, measure, done)) for _ in range(processes)]
    for process in running:
        process.start()
    for _ in running:
        ready.get()
    measure.set()
    figures = [ready.get() for _ in running]
    done.set()
    for process in running:
        process.join()
    return tuple(sum(values) for values in zip(*figures, strict=True))


def bench(folder, products):
    print(f"\n== {products:,} products")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "items.json").exists():
        write_catalogue(folder, products)
    if not (folder / "store").exists():
        start = time.process_time()
        build_store(folder / "items.json", folder / "attributes.json", out=folder / "store", nouns="words")
        spent = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"build            {spent:8.1f} CPU s  {products / spent:,.0f} products/s, peak memory {peak:,.0f} MB")
    start = time.perf_counter()
    store = Store(folder / "store")
    print(f"load             {(time.perf_counter() - start) * 1000:8.1f} ms")
    texts = [store.product(row).search_text() for row in range(min(len(store), MOST_TEXTS))]
    for memo in (analyzer._term_of, analyzer._terms_of):  # what the build left
        memo.clear()
    print(f"analyse          {1000 / cpu_ms(analyzer.analyze, texts):8,.0f} texts/CPU s, cold, {len(texts):,} texts")
    searcher, words = Searcher(store), queries(store, 100)
    cpu_ms(searcher.search, words)
    ours, peer = cpu_ms(searcher.search, words), cpu_ms(lambda q: every_posting(store, q), words)
    print(f"query            {ours:8.2f} CPU ms  every posting {peer:.2f} ms = {peer / ours:.1f} x")
    for kind, ms in bench_actions(folder / "store").items():
        recorded = ORIGINAL_MS[kind]
        print(f"{kind:16} {ms:8.2f} CPU ms  (original, recorded: {recorded:.0f} ms = {recorded / ms:,.0f} x)")
    figures = "{:,.0f} MB RSS, {:,.0f} MB PSS, {:,.0f} MB private"
    shared = memory(play, folder / "store", PROCESSES)
    print(f"{EPISODES} episodes in {PROCESSES} processes: {figures.format(*shared)}")
    if products <= 100_000:
        copied = memory(hold_copy, folder, PROCESSES)
        print(f"a parsed copy in each: {figures.format(*copied)} = {copied[1] / shared[1]:.1f} x PSS")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--keep", type=Path, help="keep catalogues and stores here for the next run")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for size in (1_000, 100_000, *([1_000_000] if chosen.million else [])):
            bench((chosen.keep or Path(temporary)) / str(size), size)
