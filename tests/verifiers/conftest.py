"""What the tests of every verifier share."""

import verifiers
from tests.verifiers.draftings import CASES, TREE_RULES
from verifiers import ModelBound

NAMES = {
    "verifier": verifiers.names(),
    "tree_rule": TREE_RULES,
    # Rules that can be served; the others need whole models and have tests of their own.
    "served": [name for name in verifiers.names() if not isinstance(verifiers.get(name), ModelBound)],
}
# Canonical selection sums over multisets of tokens: a rule for toys.
NAMES["scalable"] = [name for name in NAMES["served"] if name != "canonical"]


def pytest_generate_tests(metafunc):
    """Run a test once for each verifier that the name of its argument stands for, or for each ``name``.

    With an argument ``kind``, too: on paths, and on trees if the rule takes them.
    """
    if "name" in metafunc.fixturenames:
        kinds = "kind" in metafunc.fixturenames
        metafunc.parametrize(("name", "kind") if kinds else "name", CASES if kinds else verifiers.names())
    for argument, names in NAMES.items():
        if argument in metafunc.fixturenames and "kind" in metafunc.fixturenames:
            cases = [(verifiers.get(name), kind) for name, kind in CASES if name in names]
            ids = [f"{name}-{kind}" for name, kind in CASES if name in names]
            metafunc.parametrize((argument, "kind"), cases, ids=ids)
        elif argument in metafunc.fixturenames:
            metafunc.parametrize(argument, [verifiers.get(name) for name in names], ids=names)
