"""The random states of a process as plain values, for checkpoints.

Why: the project draws from seeded, keyed generators only, but libraries (dropout, samplers) use the global ones.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def random_states() -> dict[str, Any]:
    """States of Python's, NumPy's, torch's and this rank's CUDA generator; loadable with `weights_only=True`."""
    _, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (torch.from_numpy(np.asarray(keys, dtype=np.int64)), position, has_gauss, gauss),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Put back what `random_states` returned."""
    keys, position, has_gauss, gauss = states["numpy"]
    random.setstate(states["python"])
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), position, has_gauss, gauss))
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
