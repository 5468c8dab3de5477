"""Text -> unit vectors, by the embedder that the configuration names, with a fingerprint that a bank is checked
against.

Why: a bank's vectors and thresholds belong to one embedder; another one would rank without any error message.
Invariants: `encode` gives (n, d) float32 rows of L2 norm 1 (or 0 for a text without any known token), finite, for any
list of texts, the empty one included; models load on the device that is named, never on all that are visible.
"""

from __future__ import annotations

import hashlib
import importlib.util
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mh_train.config.schema import EmbedderConfig
from mh_train.extras import install
from mh_train.memory.index import words
from mh_train.memory.records import MemoryStoreError, clean_text


@dataclass(frozen=True)
class Fingerprint:
    """Which embedder made a vector: its name, its dimension, a digest of its weights."""

    name: str
    dim: int
    digest: str

    def to_json(self) -> dict[str, Any]:
        """Plain data for headers and manifests."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.name} ({self.dim} dimensions, weights {self.digest})"


class Embedder(ABC):
    """Encodes texts. `slow` embedders are called outside the event loop's thread."""

    fingerprint: Fingerprint
    slow = False

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """n texts -> (n, d) float32, rows L2-normalised. Raises `MemoryStoreError` when a vector is not finite."""
        if not texts:
            return np.zeros((0, self.fingerprint.dim), dtype=np.float32)
        vectors = np.asarray(self._encode([clean_text(text) for text in texts]), dtype=np.float32)
        if vectors.shape != (len(texts), self.fingerprint.dim) or not np.isfinite(vectors).all():
            raise MemoryStoreError(
                f"Embedder {self.fingerprint.name} gave vectors that are not finite or have shape {vectors.shape}, not "
                f"{(len(texts), self.fingerprint.dim)}; check memory.embedder.path."
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1.0).astype(np.float32)

    @abstractmethod
    def _encode(self, texts: list[str]) -> Any:
        """Raw vectors of one or more texts."""


class HashingEmbedder(Embedder):
    """Signed feature hashing of words with log counts: no weights, for tests and smoke runs."""

    def __init__(self, dim: int) -> None:
        self.fingerprint = Fingerprint("hashing", dim, "blake2b-1")

    def _encode(self, texts: list[str]) -> np.ndarray:
        out = np.zeros((len(texts), self.fingerprint.dim), dtype=np.float32)
        for row, text in zip(out, texts, strict=True):
            for word, count in Counter(words(text)).items():
                code = _word_hash(word)
                row[(code >> 1) % len(row)] += (1.0 if code & 1 else -1.0) * (1.0 + np.log(count))
        return out


class WordLlamaEmbedder(Embedder):
    """The mean of the token vectors that the PyPI package `wordllama` ships (256 dimensions): offline, on any CPU.

    Files are read directly: the package looks for its tokenizer in a folder it does not ship and would ask the hub."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise MemoryStoreError("memory.embedder.name=wordllama needs the package wordllama; pip install wordllama.")
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = Path(spec.origin).parent
        weights = folder / "weights" / "l2_supercat_256.safetensors"
        try:
            self.table = load_file(weights)["embedding.weight"]
            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        except (OSError, KeyError) as error:
            raise MemoryStoreError(
                f"The wordllama package at {folder} lacks its weights or tokenizer ({error}); "
                "pip install wordllama==0.4.0.post1."
            ) from error
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.fingerprint = Fingerprint("wordllama", self.table.shape[1], _digest(weights.read_bytes()))

    def _encode(self, texts: list[str]) -> np.ndarray:
        out = np.zeros((len(texts), self.fingerprint.dim), dtype=np.float32)
        for row, encoding in zip(out, self.tokenizer.encode_batch(texts, add_special_tokens=False), strict=True):
            if encoding.ids:
                row[:] = self.table[encoding.ids].astype(np.float32).mean(axis=0)
        return out


class ModelEmbedder(Embedder):
    """A transformer: `encode(texts)` of a loaded model, fingerprinted by its parameters."""

    slow = True

    def __init__(self, name: str, model: Any, encode: Callable[[list[str]], Any], module: Any) -> None:
        self.model = model
        self._call = encode
        dim = int(np.asarray(encode(["dimension"])).shape[1])
        self.fingerprint = Fingerprint(name, dim, _parameters_digest(module))

    def _encode(self, texts: list[str]) -> Any:
        return self._call(texts)


def make_embedder(config: EmbedderConfig) -> Embedder:
    """The embedder of `memory.embedder`. Raises `MemoryStoreError` naming the package or path that is missing."""
    if config.name == "hashing":
        return HashingEmbedder(config.dim)
    if config.name == "wordllama":
        return WordLlamaEmbedder()
    try:
        return _bge_m3(config) if config.name == "bge_m3" else _sentence_transformers(config)
    except ImportError as error:
        raise MemoryStoreError(
            f"memory.embedder.name={config.name} needs a missing package ({error}); {install('embed')}."
        ) from error
    except (OSError, ValueError) as error:
        raise MemoryStoreError(f"The embedder at {config.path or config.name} cannot be loaded: {error}") from error


def _bge_m3(config: EmbedderConfig) -> ModelEmbedder:
    """BGE-M3's dense vectors through FlagEmbedding; `devices` is always passed: its default is every visible GPU."""
    from FlagEmbedding import BGEM3FlagModel

    half = config.device.startswith("cuda")
    path = config.path or "BAAI/bge-m3"
    model = BGEM3FlagModel(path, use_fp16=half, devices=[config.device], batch_size=config.batch)

    def encode(texts: list[str]) -> Any:
        return model.encode(texts, batch_size=config.batch)["dense_vecs"]

    return ModelEmbedder("bge_m3", model, encode, model.model.model)


def _sentence_transformers(config: EmbedderConfig) -> ModelEmbedder:
    from sentence_transformers import SentenceTransformer

    if not config.path:
        raise ValueError("memory.embedder.path is empty; give a folder or hub id.")
    model = SentenceTransformer(config.path, device=config.device)

    def encode(texts: list[str]) -> Any:
        return model.encode(texts, batch_size=config.batch, show_progress_bar=False, convert_to_numpy=True)

    return ModelEmbedder("sentence_transformers", model, encode, model)


def _parameters_digest(module: Any) -> str:
    """A digest over names, shapes and leading values of all parameters; the same for float32 and float16 copies."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        head = tensor.detach().flatten()[:32].float().cpu().numpy().astype(np.float16)
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + head.tobytes())
    return digest.hexdigest()[:16]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@lru_cache(maxsize=65536)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
