"""Random streams by name: each draws independently of all others, and is the same in every run of a seed."""

from hashlib import blake2b

import numpy as np


def stream(seed: int, name: str, *numbers: int) -> np.random.Generator:
    """Return the random stream of a name, and of further numbers where a place has many.

    Each draws independently of all others, and of the generator that a subject gets: the key is a hash of all
    arguments, so that no two places share a stream by chance of their numbers.

    >>> stream(0, "sampler/joint").random() == stream(0, "sampler/joint").random()
    True
    >>> stream(0, "sampler/joint").random() == stream(0, "sampler/batch").random()
    False
    """
    key = repr((int(seed), name, *map(int, numbers))).encode()
    return np.random.default_rng(int.from_bytes(blake2b(key, digest_size=16).digest()))
