"""The bank's mirror in Milvus: durable, queryable, never consulted for what a run decides.

Why: people and other programs search a run's memories with the tools they know. Milvus Lite (inside the run folder)
is the default, a server is the same code by `memory.milvus.uri`.
Invariants: one writer, one process, one call at a time; the collection is refilled from the bank when it is opened,
so that nothing of an abandoned future is left in it; a failure is a `MemoryStoreError` and costs no record, for the
journal is the truth. `count(*)` is never asked (it is wrong after a crash of Lite), nothing is flushed by hand.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import traceback
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mh_train.config.schema import MilvusConfig
from mh_train.memory.embed import Fingerprint
from mh_train.memory.milvus_schema import OUTPUT, collection_indexes, collection_schema, row
from mh_train.memory.records import MemoryStoreError, Record, canonical

log = logging.getLogger(__name__)
BATCH = 256
TIMEOUT_S = 20.0
DESCRIPTION = "mh_train.description"
"""Lite forgets a collection's description but keeps its properties; a server has the description."""
T = TypeVar("T")


def own_collection(collection: str, run: str) -> str:
    """The collection of one run on a server that many share: letters, digits and _ only, different for different
    runs."""
    plain = re.sub(r"\W", "_", run, flags=re.ASCII)
    return f"{collection}_{plain}"[:240] + f"_{zlib.crc32(run.encode()):08x}"


class MilvusMirror:
    """One collection of one run. Raises `MemoryStoreError` from every method when Milvus fails, with what to do."""

    def __init__(self, config: MilvusConfig, folder: Path, fingerprint: Fingerprint, run: str) -> None:
        self.lite_path = None if config.uri else Path(folder) / "milvus.db"
        self.uri = config.uri or str(self.lite_path)
        self.collection = config.collection if self.lite_path else own_collection(config.collection, run)
        self.fingerprint = fingerprint
        self.run = run
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._client: Any = None
        self._client = self._guarded("opened", lambda: _connect(self.uri, config.token))

    def refill(self, records: Sequence[Record], vectors: Mapping[str, np.ndarray]) -> None:
        """Drop the collection and fill a new one with these records. Refuses to drop another run's collection."""
        stored = self.stored()
        if stored is not None and self.lite_path is None and stored.get("run") != self.run:
            raise MemoryStoreError(
                f"The collection {self.collection} at {self.uri} belongs to run {stored.get('run')!r}; "
                "set memory.milvus.collection to another name."
            )

        def work() -> None:
            if stored is not None:
                self._client.drop_collection(self.collection)
            description = canonical({"embedder": self.fingerprint.to_json(), "run": self.run})
            self._client.create_collection(
                self.collection,
                schema=collection_schema(self._client, self.fingerprint.dim, description),
                index_params=collection_indexes(self._client),
                consistency_level="Strong",
                properties={} if self.lite_path is None else {DESCRIPTION: description},
            )
            self._client.load_collection(self.collection)

        self._guarded("refilled", work)
        self.upsert(records, vectors)

    def upsert(self, records: Sequence[Record], vectors: Mapping[str, np.ndarray]) -> None:
        """Insert or replace records, in batches."""
        for start in range(0, len(records), BATCH):
            rows = [row(record, vectors[record.id]) for record in records[start : start + BATCH]]
            self._guarded("written", lambda rows=rows: self._client.upsert(self.collection, rows))  # type: ignore[misc]

    def query(self, filters: Mapping[str, str | int], limit: int = 1024) -> list[dict[str, Any]]:
        """Rows whose columns equal the given values, without vectors, by id."""
        condition = " and ".join(f"{name} == {literal(value)}" for name, value in filters.items())
        found = self._guarded(
            "read", lambda: self._client.query(self.collection, filter=condition, output_fields=OUTPUT, limit=limit)
        )
        return sorted((dict(item) for item in found), key=lambda item: item["id"])

    def search(self, column: str, data: Sequence[Any], condition: str, limit: int) -> list[list[str]]:
        """Ids of the best rows that meet a condition, best first, for each of q vectors (`dense`, cosine) or texts
        (`sparse`, BM25)."""
        metric = "COSINE" if column == "dense" else "BM25"

        def work() -> list[list[str]]:
            found = self._client.search(
                self.collection,
                data=list(data),
                anns_field=column,
                filter=condition,
                limit=limit,
                search_params={"metric_type": metric},
            )
            return [[hit["id"] for hit in hits] for hits in found]

        return self._guarded("searched", work)

    def stored(self) -> dict[str, Any] | None:
        """Embedder and run that the stored collection was made for: {} when unknown, None when there is no
        collection."""

        def work() -> dict[str, Any] | None:
            if not self._client.has_collection(self.collection):
                return None
            found = self._client.describe_collection(self.collection)
            return json.loads(found["properties"].get(DESCRIPTION) or found["description"] or "{}")

        return self._guarded("read", work)

    def close(self) -> None:
        """Close the client; stop Lite's server and free its lock."""
        if self._client is not None:
            self._client.close()
            self._client = None
            if self.lite_path is not None:
                from milvus_lite.server_manager import server_manager_instance

                server_manager_instance.release_server(str(self.lite_path))

    def __getstate__(self) -> dict[str, Any]:
        raise MemoryStoreError("A Milvus mirror belongs to one process; give workers the bank's view instead.")

    def _guarded(self, done: str, work: Callable[[], T]) -> T:
        """Run one call alone, in the owning process, with every failure of Milvus as a `MemoryStoreError`."""
        if os.getpid() != self._owner:
            raise MemoryStoreError(
                "The Milvus mirror was opened by another process; give workers the bank's view instead."
            )
        import grpc
        from pymilvus.exceptions import MilvusException

        with self._lock:
            try:
                return work()
            except (MilvusException, grpc.RpcError, OSError, ValueError) as error:
                raise MemoryStoreError(
                    f"Milvus at {self.uri} could not be {done} ({_cause(error)}); start the server, correct "
                    "memory.milvus.uri, or set memory.milvus.enabled=false."
                ) from error


def literal(value: str | int) -> str:
    """A value as a literal of Milvus' filter language: no text can end the literal and become part of the filter."""
    return json.dumps(value, ensure_ascii=False)


def _connect(uri: str, token: str) -> Any:
    from pymilvus import MilvusClient

    if "://" not in uri:
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
        logging.getLogger("grpc._server").addFilter(_lite_may_lack_a_clock)
    return MilvusClient(uri, token=token, timeout=TIMEOUT_S)


def _lite_may_lack_a_clock(record: logging.LogRecord) -> bool:
    """False for the one message of Lite's server that says nothing: before it waits for an index pymilvus asks for a
    timestamp and does without one where there is none, but gRPC logs Lite's "not implemented" with a traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, NotImplementedError):
        return True
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1:] != ["AllocTimestamp"]


def _cause(error: BaseException) -> str:
    return " ".join(str(getattr(error, "message", "") or error).split())[:300]
