"""What the tests of every verifier share."""

import verifiers
from verifiers import ModelBound

NAMES = {
    "verifier": verifiers.names(),
    # Rules that can be served; the others need whole models and have tests of their own.
    "served": [name for name in verifiers.names() if not isinstance(verifiers.get(name), ModelBound)],
}
# Canonical selection sums over multisets of tokens: a rule for toys.
NAMES["scalable"] = [name for name in NAMES["served"] if name != "canonical"]


def pytest_generate_tests(metafunc):
    """Run a test once for each verifier that the name of its argument stands for, or for each ``name``."""
    for argument, names in NAMES.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, [verifiers.get(name) for name in names], ids=names)
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", verifiers.names())
