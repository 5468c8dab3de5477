"""Random numbers that belong to a request: Philox4x32-10, keyed by the request and counted by token position.

Why: a shared stream would make a sample depend on what else was running. Invariant: `uniforms(keys, t)[i]` is a
function of `keys[i]` and `t` alone, on every machine (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
3").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_ROUNDS = 10


def philox(keys: NDArray[np.uint64], counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The four 32-bit words of Philox4x32-10: keys (n,) of 64 bits, counters (n, 4) of 32 bits -> (n, 4)."""
    x0, x1, x2, x3 = (counters[:, column] for column in range(4))
    k0, k1 = keys & _LOW, keys >> _SHIFT
    for number in range(_ROUNDS):
        if number:
            k0, k1 = (k0 + np.uint64(_WEYL[0])) & _LOW, (k1 + np.uint64(_WEYL[1])) & _LOW
        p0, p1 = _MULTIPLIERS[0] * x0, _MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (p1 >> _SHIFT) ^ x1 ^ k0, p1 & _LOW, (p0 >> _SHIFT) ^ x3 ^ k1, p0 & _LOW
    return np.stack([x0, x1, x2, x3], axis=1)


def uniforms(keys: NDArray[np.uint64], position: int) -> NDArray[np.float64]:
    """One number in [0, 1) with 52 bits per key: keys (n,), token position -> (n,)."""
    counters = np.zeros((len(keys), 4), dtype=np.uint64)
    counters[:, 0] = position
    words = philox(keys, counters)
    bits = ((words[:, 0] << _SHIFT) | words[:, 1]) >> np.uint64(12)
    return bits.astype(np.float64) * 2.0**-52
