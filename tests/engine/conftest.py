"""One small model for all engine tests, with weights large enough that its distributions are far from uniform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_corpus import CORPUS, PHRASES
from transformers import AutoModelForCausalLM, AutoTokenizer

from mh_train.config.schema import TinyConfig
from mh_train.engine.tiny import build_tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny(TinyConfig(phrases=PHRASES), CORPUS, 0, tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tokenizer(tiny_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_folder)


@pytest.fixture(scope="session")
def model(tiny_folder: Path) -> Any:
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return model
