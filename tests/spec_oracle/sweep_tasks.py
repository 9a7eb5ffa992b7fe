"""Tasks for the tests of sweeps."""

import time

TAKEN = []


def square(*, seed, x, y):
    return {"square": x * x + y, "seed": seed}


def growing(*, seed, x):
    """Take 400 MB in the second task of a process; joblib looks for leaks once a second, after the first."""
    del seed
    time.sleep(1.1)
    TAKEN.append(b"x" * (400_000_000 if TAKEN else 0))
    return {"x": x}
