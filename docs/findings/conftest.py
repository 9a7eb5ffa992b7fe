"""Stand-ins for the tests of packages that need an accelerator, or gigabytes, to be imported.

Files that were taken out of a wheel are imported as they are; every other module of these packages is a mock.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

ROOTS = {"keras_hub", "lightning", "litgpt", "lmdeploy", "msgspec", "sglang", "vllm", "vllm_ascend"}


class Mock:
    """A class to inherit from, with fields, and to subscribe in annotations."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__()

    def __init__(self, **fields):
        vars(self).update(fields)

    def __class_getitem__(cls, parameters):
        return cls


class Mocked(ModuleType):
    """A module with every name: classes to inherit from, and mocks."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Mock,), {}) if name[0].isupper() and not name.isupper() else MagicMock(name=name)


class LastFinder:
    """Finds what nothing else finds."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in ROOTS:
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return Mocked(spec.name)

    def exec_module(self, module):
        if module.__name__ == "vllm.triton_utils":
            vars(module).update(interpreted_triton())


def interpreted_triton():
    """Return what `vllm.triton_utils` provides, for Triton's interpreter, which has no libdevice."""
    import triton
    from triton import language as tl

    @triton.jit
    def log1p(x):
        return tl.log(1.0 + x)

    return {"triton": triton, "tl": tl, "tldevice": SimpleNamespace(log1p=log1p), "HAS_TRITON": True}


os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")
sys.meta_path.append(LastFinder())
