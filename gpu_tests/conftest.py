"""Options of the GPU suite; tests marked `cuda` are left out, and counted, where there is no such device."""

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("gpu_tests")
    group.addoption("--device", default="cpu", help="where the GPU suite runs, default: cpu")
    group.addoption("--dtype", default="float32", help="precision of the rows, default: float32")
    group.addoption("--target", default=None, help="target of the large-model test, e.g. a local path")
    group.addoption("--draft", default=None, help="its draft; default: the target's first half of layers")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out, never skip, what needs a device that was not asked for or is not there."""
    if config.getoption("--device").startswith("cuda"):
        import torch

        if torch.cuda.is_available():
            return
    left_out = [item for item in items if item.get_closest_marker("cuda")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("cuda")]


@pytest.fixture
def device(request):
    return request.config.getoption("--device")


@pytest.fixture
def dtype(request):
    import torch

    return getattr(torch, request.config.getoption("--dtype"))
