"""What the tests of every verifier share."""

import verifiers


def pytest_generate_tests(metafunc):
    """Run tests that take ``verifier`` or ``name`` on every verifier of the registry."""
    names = verifiers.names()
    if "verifier" in metafunc.fixturenames:
        metafunc.parametrize("verifier", [verifiers.get(name) for name in names], ids=names)
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", names)
