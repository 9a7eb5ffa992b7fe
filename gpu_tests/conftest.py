"""Options of the GPU suite, its table at the end; without a device, tests marked `cuda` are left out."""

from pathlib import Path

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("gpu_tests")
    group.addoption("--device", default="cpu", help="where the GPU suite runs, default: cpu")
    group.addoption("--dtype", default="float32", help="precision of networks and rows, default: float32")
    group.addoption("--target", default=None, help="target of the large-model tests, e.g. a local path")
    group.addoption("--draft", default=None, help="its draft; default: nine tenths of the target's layers")
    group.addoption("--size", choices=("small", "large"), help="random network; default: large on a GPU only")
    group.addoption("--memory", type=float, metavar="GB", help="split batches whose rows take more")
    group.addoption("--figures", type=Path, metavar="STEM", help="write the table: STEM.json, STEM.md")


def pytest_configure(config):
    from gpu_tests.figures import Figures

    config.gpu_figures = Figures()
    config.pluginmanager.register(_Table(config), "gpu_tests table")


class _Table:
    """Collects what tests recorded, also in other processes, and shows it."""

    def __init__(self, config):
        self.figures, self.stem = config.gpu_figures, config.getoption("--figures")

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and self.figures.add(report.user_properties) and self.stem:
            self.figures.write(self.stem)

    def pytest_terminal_summary(self, terminalreporter):
        from gpu_tests.figures import text

        if self.figures.rules:
            terminalreporter.section("rules on a pair of models")
            for line in text(self.figures.data()):
                terminalreporter.write_line(line)


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


@pytest.fixture(scope="session")
def device(request):
    return request.config.getoption("--device")


@pytest.fixture
def dtype(request):
    import torch

    return getattr(torch, request.config.getoption("--dtype"))
