"""How a record lies in Milvus: one column per field, one dense vector, one BM25 function over the text.

Why: the mirror is there to be queried by people and tools, so every field that a filter may name is a column of its
own. Invariants: rows obey the server's limits (65535 bytes a string or JSON value), cut here and nowhere else; the
record in the journal is never cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mh_train.memory.records import Record, canonical

MOST_BYTES = 65_535
TEXTS = (
    *(
        "env",
        "task_type",
        "type",
        "state",
        "title",
        "description",
        "content",
        "applicability",
        "risk",
        "guard_condition",
    ),
    *("evidence_span", "situation", "source_state", "source_status", "superseded_by", "label", "text"),
)
INTEGERS = ("created", "verified_at", "c_use", "c_succ", "accepted", "rejected", "accepted_succ", "last_used")
REALS = ("quality", "reward", "confidence", "utility")
DOCUMENTS = ("signature", "conflict_links", "lost_to", "covers", "provenance", "timeline")
OUTPUT = ["id", *TEXTS, *INTEGERS, *REALS, *DOCUMENTS, "pinned"]


def collection_schema(client: Any, dim: int, description: str) -> Any:
    """The collection's schema: `id` is the key, `dense` (dim,) float32, `sparse` is BM25 over `text`."""
    from pymilvus import DataType, Function, FunctionType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=64)
    for name in TEXTS:
        analysed = {"enable_analyzer": True} if name == "text" else {}
        schema.add_field(name, DataType.VARCHAR, max_length=MOST_BYTES, **analysed)
    for name in INTEGERS:
        schema.add_field(name, DataType.INT64)
    for name in REALS:
        schema.add_field(name, DataType.FLOAT)
    for name in DOCUMENTS:
        schema.add_field(name, DataType.JSON)
    schema.add_field("pinned", DataType.BOOL)
    schema.add_field("dense", DataType.FLOAT_VECTOR, dim=dim)
    schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_function(Function("bm25", FunctionType.BM25, input_field_names=["text"], output_field_names=["sparse"]))
    return schema


def collection_indexes(client: Any) -> Any:
    """Exact cosine over `dense` and BM25 over `sparse`."""
    indexes = client.prepare_index_params()
    indexes.add_index("dense", index_type="FLAT", metric_type="COSINE")
    indexes.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    return indexes


def row(record: Record, vector: np.ndarray) -> dict[str, Any]:
    """The record as a row; texts and documents that are longer than the server takes lose their end."""
    values = record.to_json()
    descriptor, usage = record.descriptor, record.usage
    values |= values.pop("usage") | {
        "label": descriptor.label if descriptor else "",
        "reward": descriptor.reward if descriptor else -1.0,
        "confidence": descriptor.confidence if descriptor else -1.0,
        "verified_at": descriptor.verified_at if descriptor else -1,
        "utility": usage.utility,
        "created": record.created,
        "text": record.lexical_text(),
    }
    texts = {name: cut(str(values[name])) for name in TEXTS}
    documents = {name: fitting(values[name]) for name in DOCUMENTS}
    rest = {name: values[name] for name in ("id", "pinned", *INTEGERS, *REALS)}
    return {**rest, **texts, **documents, "dense": np.asarray(vector, dtype=np.float32)}


def cut(text: str) -> str:
    """The text, or as much of its head as fits into the server's limit in UTF-8 bytes."""
    data = text.encode("utf-8")
    return text if len(data) <= MOST_BYTES else data[:MOST_BYTES].decode("utf-8", "ignore")


def fitting(value: Any) -> Any:
    """A JSON value within the limit: lists lose their oldest entries."""
    value = list(value) if isinstance(value, (list, tuple)) else value
    while isinstance(value, list) and len(canonical(value)) > MOST_BYTES:
        value = value[len(value) // 2 + 1 :]
    return value
