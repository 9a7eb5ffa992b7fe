"""Tasks for the tests of sweeps."""


def square(*, seed, x, y):
    return {"square": x * x + y, "seed": seed}
