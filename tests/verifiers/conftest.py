"""What the tests of every verifier share."""

import pytest

import verifiers


def pytest_generate_tests(metafunc):
    """Run tests that take ``name`` on every verifier of the registry."""
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", verifiers.names())


@pytest.fixture
def verifier(name):
    return verifiers.get(name)
