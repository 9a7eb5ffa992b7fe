"""Noise that is a hash of (request seed, position): Philox 4x32-10 and MurmurHash3, on numpy arrays.

Counter-based generators have no state, so what an engine drew can be computed again from its keys, by an
implementation of our own. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); Appleby's
MurmurHash3, 32 bits.
"""

import numpy as np
from numpy.typing import NDArray

from spec_oracle.arrays import Numbers

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUND_A, _ROUND_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_A, _KEY_B = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ROUNDS = 10

_MIX_A, _MIX_B, _MIX_C = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xE6546B64)
_END_A, _END_B = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_KEY_BYTES = np.uint64(16)


def philox_uniform(seeds: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the float32 uniform of each (seed, offset), as ``tl.rand`` of Triton makes them from Philox."""
    key, counter = np.broadcast_arrays(seeds.astype(np.uint64), offsets.astype(np.uint64))
    k0, k1 = key & _LOW, key >> _SHIFT
    c0, c1 = counter & _LOW, counter >> _SHIFT
    c2 = c3 = np.zeros_like(c0)
    for _ in range(_ROUNDS):
        a, b = _ROUND_A * c0, _ROUND_B * c2
        c0, c1, c2, c3 = (b >> _SHIFT) ^ c1 ^ k0, b & _LOW, (a >> _SHIFT) ^ c3 ^ k1, a & _LOW
        k0, k1 = (k0 + _KEY_A) & _LOW, (k1 + _KEY_B) & _LOW
    signed = c0.astype(np.uint32).view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def murmur_uniform(
    seeds: NDArray[np.int64], positions: NDArray[np.int64], tokens: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return a uniform in (0, 1) for each (seed, position, token): (hash + 1/2) / 2^32."""
    seed, position = seeds.astype(np.uint64), positions.astype(np.uint64)
    hashed = np.zeros(np.broadcast_shapes(seeds.shape, positions.shape, tokens.shape), dtype=np.uint64)
    for word in (seed & _LOW, seed >> _SHIFT, position & _LOW, tokens.astype(np.uint64)):
        key = (_rotated((word * _MIX_A) & _LOW, 15) * _MIX_B) & _LOW
        hashed = (_rotated(hashed ^ key, 13) * np.uint64(5) + _MIX_C) & _LOW
    hashed ^= _KEY_BYTES
    hashed = ((hashed ^ (hashed >> np.uint64(16))) * _END_A) & _LOW
    hashed = ((hashed ^ (hashed >> np.uint64(13))) * _END_B) & _LOW
    return ((hashed ^ (hashed >> np.uint64(16))).astype(np.float64) + 0.5) / 2.0**32


def _rotated(words: Numbers, bits: int) -> Numbers:
    return ((words << np.uint64(bits)) | (words >> np.uint64(32 - bits))) & _LOW
