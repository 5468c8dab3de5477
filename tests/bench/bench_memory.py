"""Cost of governed retrieval (hybrid pool, filter, S+ / S-, budgets) against Milvus Lite's bare hybrid search.

Run: `OMP_NUM_THREADS=1 python tests/bench/bench_memory.py [--records 512] [--milvus]`. Times are CPU milliseconds, the
best of several calls; query embedding is excluded on both sides. MemGuard's paper reports 31 ms per retrieval at 512
records (its Table 24, embedding probably included). Targets at 512 records of 1024 dimensions: 1 ms for a single query,
0.3 ms per query in a batch of 128.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mh_train.agent.types import MemoryQuery
from mh_train.config.schema import DedupConfig, MemoryConfig, MilvusConfig, ScoringConfig
from mh_train.memory.embed import HashingEmbedder
from mh_train.memory.events import BankState
from mh_train.memory.milvus import MilvusMirror
from mh_train.memory.milvus_search import MilvusSearch
from mh_train.memory.reader import BankReader
from mh_train.memory.records import Descriptor, Record, RecordType, Signature
from mh_train.memory.view import BankView

WORDS = [f"word{i}" for i in range(2000)]
KINDS: tuple[RecordType, ...] = ("procedural_hint", "tool_usage", "failure_avoidance")
TARGETS_MS = (1.0, 0.3)
PAPER_MS = {128: 18.0, 256: 24.0, 512: 31.0, 1024: 46.0}


def make(records: int, dim: int) -> tuple[BankState, HashingEmbedder]:
    """A bank of records with random Zipf-like words and random unit vectors."""
    rng = np.random.default_rng(0)
    embedder = HashingEmbedder(dim)
    state = BankState()
    for i in range(records):
        one = Record(
            id=f"m{i:06d}",
            env="toy",
            task_type="t",
            content=sentence(rng, 40),
            situation=sentence(rng, 15),
            type=KINDS[i % 3],
            guard_condition="check",
            descriptor=Descriptor(rng.uniform(0.7, 1), rng.uniform(0.7, 1), "verified_success", int(rng.integers(100))),
            signature=Signature(condition=tuple(sentence(rng, 3).split())),
        )
        state.records[one.id] = one
    vectors = rng.standard_normal((records, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    state.vectors = dict(zip(state.records, vectors, strict=True))
    return state, embedder


def sentence(rng: np.random.Generator, length: int) -> str:
    """Words drawn with Zipf-like frequencies."""
    return " ".join(WORDS[int(i)] for i in 2000 * rng.random(length) ** 3)


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """CPU milliseconds of a call, the best of `repeats` (other jobs on the machine only add to it)."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(1000 * (time.process_time() - started))
    return min(times)


def ours(view: BankView, embedder: HashingEmbedder, batch: int, search: MilvusSearch | None = None) -> float:
    """Milliseconds per query of one ranked batch; with `search`, of the path through Milvus."""
    scoring = ScoringConfig(enabled=True, guard_relevance=0.1)
    config = MemoryConfig(k=5, hybrid=True, dedup=DedupConfig(read=0.85), scoring=scoring)
    reader = BankReader(view, embedder, config, search=search)
    rng = np.random.default_rng(1)
    queries = [
        MemoryQuery(sentence(rng, 12), "toy", "x", "t", sentence(rng, 10), sentence(rng, 60)) for _ in range(batch)
    ]
    vectors = embedder.encode([query.text for query in queries])
    repeats = 5 if search is not None or len(view) > 4096 else 200
    return milliseconds(lambda: reader.rank(vectors, queries), repeats) / batch


def milvus(state: BankState, view: BankView, embedder: HashingEmbedder) -> tuple[float, float]:
    """Milliseconds of one hybrid search (dense + BM25, pool of 20) in Milvus Lite, and of our retrieval with candidates
    from Milvus Lite (`memory.milvus.search_above`)."""
    from pymilvus import AnnSearchRequest, WeightedRanker

    with tempfile.TemporaryDirectory() as folder:
        mirror = MilvusMirror(MilvusConfig(), Path(folder), embedder.fingerprint, "bench")
        mirror.refill(list(state.records.values()), state.vectors)
        text = sentence(np.random.default_rng(1), 12)
        requests = [
            AnnSearchRequest([embedder.encode([text])[0]], "dense", {"metric_type": "COSINE"}, limit=20),
            AnnSearchRequest([text], "sparse", {"metric_type": "BM25"}, limit=20),
        ]
        ranker = WeightedRanker(0.5, 0.5)
        taken = milliseconds(
            lambda: mirror._client.hybrid_search(
                mirror.collection, requests, ranker, limit=20, output_fields=["content"]
            ),
            9,
        )
        searched = ours(view, embedder, 1, MilvusSearch(mirror))
        mirror.close()
        return taken, searched


def main() -> None:
    """Print one line per bank size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[128, 512, 1024, 4096, 16_384, 100_000])
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--milvus", action="store_true", help="also measure Milvus Lite, up to 1024 records")
    arguments = parser.parse_args()
    for size in arguments.records:
        state, embedder = make(size, arguments.dim)
        started = time.process_time()
        view = BankView(state, embedder.fingerprint)
        built = 1000 * (time.process_time() - started)
        single, batched = ours(view, embedder, 1), ours(view, embedder, 128)
        line = f"{size:>7} records: {single:7.3f} ms single, {batched:7.3f} ms per query of 128, view {built:.0f} ms"
        if size == 512 and arguments.dim == 1024:
            met = single <= TARGETS_MS[0] and batched <= TARGETS_MS[1]
            line += "; targets met" if met else "; TARGETS MISSED"
        if arguments.milvus and size <= 1024:
            peer, searched = milvus(state, view, embedder)
            line += f"; Milvus Lite hybrid {peer:.1f} ms = {peer / single:.0f} x single, as finder {searched:.1f} ms"
        if size in PAPER_MS:
            line += f"; paper {PAPER_MS[size]:.0f} ms"
        print(line, flush=True)


if __name__ == "__main__":
    main()
