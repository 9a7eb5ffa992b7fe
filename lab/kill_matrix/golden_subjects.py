"""The subjects of golden reports, by names that survive a move of modules, and how each is audited.

Rules and third parties go by their names in the registries, specimens and controls by theirs, examples by
their files. Sizes and budgets are small; seconds of a budget are those of `lab.kill_matrix.work_clock`.
"""

import importlib.util
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import verifiers
from lab.kill_matrix.columns import OF_SHAPES, subject_of
from lab.kill_matrix.work_clock import WorkClock
from lab.specimens.registry import specimens
from lab.specimens.specimen import Specimen
from spec_oracle.audit import AuditOptions, AuditReport, audit
from spec_oracle.audit.context import Context
from spec_oracle.contracts.completion import Sampling
from spec_oracle.errors import EngineError, InvalidInputError, unknown
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.recorded.checks import Transcripts
from spec_oracle.servers.recorded.transcripts import line_of, read_all

ROOT: Final = Path(__file__).parents[2]

SPECIMENS: Final = MappingProxyType({**specimens(), **specimens(num_paths=2)})
"""Every specimen and control that can run here; imported with this module, once for all processes."""

DEFECTS: Final = """
chain-residual-absolute chain-token-rule-declared-block chain-rows-of-the-neighbour
chain-zeroed-target-rows chain-ids-of-eight-bits chain-residual-of-32-tokens chain-chances-above-zero
chain-greedy-block-without-carry greedy-multipath-ties-differ k-seq-rounded-down

tree-unlikely-token-dropped tree-rows-of-two-levels tree-rows-of-the-request-before
tree-sampled-siblings-taken-for-certain tree-ids-of-16-bits
tree-ring-of-eight-buffers

tree-sampler-rows-by-depth tree-sampler-siblings-taken-for-independent

always-accept last-draft-unverified accept-uniform-reused epsilon-in-ratio
torch-floored-residual torch-one-uniform-per-request residual-not-updated target-not-renormalised
zero-uniform-accepts empty-residual-yields-id-0 draft-token-overwritten stale-draft-buffer
generator-not-advanced fixed-seed floor-under-residual last-tile-lost block-option-ignored
one-uniform-vector-for-the-batch rows-times-positions shared-at-distance-2 graph-of-33-replays
shared-at-distance-2-by-paths
watched-exact-type-of-an-array shape-bonus-of-float32 shape-last-request shape-ids-of-one-byte
unseen-ids-of-sixteen-bits mixed-short-drafts-of-long-ones

top-2-draft-reports-raw-q q-never-passed seed-of-another-request unseeded-requests-start-alike
text-after-stop seeded-requests-accept-all third-of-a-batch-drafts-alone
third-draft-untested pattern-two-full pattern-short-stop-window reports-the-residual
cached-rollback-one-too-far cached-cap-hides-stop recurrent-column-0 one-block-of-16-tokens ragged-mask
"""
"""Rules for paths, rules for draft trees, tree samplers, samplers, engines."""

CONTROLS: Final = """
chain-block greedy-multipath tree-certain-siblings

tree-sampler-without-replacement tree-sampler-sample-and-match

token-rule recycled-uniform inverse-cdf point-mass python-random legacy-numpy block-rule
torch-race-with-shared-noise torch-inverse-cdf-search recursive-rejection no-bonus
hash-of-a-counter handed-column-by-column watched-exact-array-and-right
shape-blocks-with-a-tail mixed-requests-of-all-kinds

system system-with-stop-and-budget point-mass-rule-over-siblings any-draft-length
seeded-requests-hash-their-seed pattern-drafts-ahead pattern-carries-over pattern-grammar reports-the-rows
cached-sample-and-match recurrent-engine ragged-batch
"""
"""The same kinds, lossless."""

SERVERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "right": {},
    "right, openai": {"shape": "openai"},
    "right, uncounted": {"shape": "uncounted"},
    "right, silent": {"shape": "silent"},
    "right, beside a reference": {"reference": {"draft": False}},
    "silent, beside a reference": {"shape": "silent", "reference": {"draft": False, "shape": "silent"}},
    "always-accept": {"defect": "always-accept"},
    "biased-second": {"defect": "biased-second", "size": 0.4},
    "biased-late": {"defect": "biased-late", "size": 0.5},
    "same-seed": {"defect": "same-seed"},
    "stops-late": {"defect": "stops-late"},
    "ignores-seeds": {"defect": "ignores-seeds"},
    "impossible-counts": {"defect": "impossible-counts"},
    "caches-answers": {"defect": "caches-answers"},
    "always-accept-long": {"defect": "always-accept-long"},
    "logprobs-rounded": {"defect": "logprobs-rounded"},
}
"""Options of the tests' stand-in server, and of another one that is its reference."""

TRANSCRIPTS: Final = ("right", "always-accept", "biased-late")
"""Servers whose completions are recorded, and judged without them."""

EXAMPLES: Final = {
    "docs/examples": {
        "same_uniform": "numpy",
        "ignores_greedy": "numpy",
        "flat_adapter": "torch",
        "padded_adapter": "torch",
        "uniforms_adapter": "torch",
    },
    "examples/engine": {"sampler": "numpy"},
}
"""Modules by folder, each with a function ``verify``, and the arrays that it takes."""

THIRD_PARTIES: Final = (
    "transformers",
    "transformers-ensemble",
    "transformers-generate/assistant, top-p",
    "transformers-generate/lookup, stop token",
)

OWN_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    # Samples alone decide, and must be as many as it takes.
    "control hash-of-a-counter": {"budget": 8.0},
    # Traced races and whole models take long: their checks are run on quicker subjects, too.
    "control torch-race-with-shared-noise": {"checks": ("shapes", "length", "bad-input", "scale")},
    "control cached-sample-and-match": {"checks": ("long-texts", "logprobs", "streams", "batch")},
    "specimen cached-cap-hides-stop": {"checks": ("calls", "long-texts", "streams")},
    "example docs/examples/flat_adapter.py": {"checks": ("shapes", "length", "bad-input", "inputs-kept")},
    "third party transformers-generate/assistant, top-p": {"checks": ("long-texts", "logprobs", "streams")},
    "third party transformers-generate/lookup, stop token": {"checks": ("long-texts", "logprobs", "streams")},
}
"""Options in place of those of other subjects, by name."""

FEW_SHAPES: Final = 3
"""Shapes of samplers and rules, but for specimens about shapes, which get as many as time allows."""

FEW_LONG: Final = 32
"""Long completions of engines."""

BUDGET, ENGINE_BUDGET, SERVER_BUDGET = 2.0, 4.0, 20.0
"""Seconds of work for a check that samples: of rules and samplers, of engines, of servers."""

ANSWER: Final = 200
"""Microseconds of work of an answer of a server."""

DETECTED: Final = 0.2
"""Total variation that audits of servers must detect."""

Report: TypeAlias = Callable[[WorkClock], AuditReport]


@dataclass(frozen=True)
class Options(AuditOptions):
    """Options of an audit, how many shapes `shapes` tries at most, and of how many long completions."""

    draft_length: int = 2
    budget: float = BUDGET
    shrink: bool = False
    most_shapes: int | None = FEW_SHAPES

    def context(self, alpha: float) -> Context:
        """Return the context of an audit, with these limits."""
        found = super().context(alpha)
        inputs = replace(found.inputs, long=FEW_LONG)
        return replace(found, shapes=replace(found.shapes, most=self.most_shapes), inputs=inputs)


def listed() -> Mapping[str, Report]:
    """Return what makes the report on each subject, by name; the kind comes first."""
    found: dict[str, Report] = {}
    for name in verifiers.names():
        found[f"rule {name}"] = partial(_of_name, name, Options())
    for kind, names in (("specimen", DEFECTS), ("control", CONTROLS)):
        found |= {f"{kind} {name}": partial(_of_specimen, f"{kind} {name}") for name in names.split()}
    found |= {f"server {name}": partial(_of_server, stand_in) for name, stand_in in SERVERS.items()}
    found |= {f"transcripts {name}": partial(_of_transcripts, SERVERS[name]) for name in TRANSCRIPTS}
    for folder, modules in EXAMPLES.items():
        for module, array in modules.items():
            name = f"example {folder}/{module}.py"
            options = Options(array=array, **OWN_OPTIONS.get(name, {}))
            found[name] = partial(_of_name, f"{module}:verify", options, folder=ROOT / folder)
    for name in THIRD_PARTIES:
        options = Options(**OWN_OPTIONS.get(f"third party {name}", {}))
        found[f"third party {name}"] = partial(_of_name, name, options)
    return MappingProxyType(found)


def _of_name(name: str, options: Options, _: WorkClock, folder: Path = ROOT) -> AuditReport:
    with chdir(folder):
        return audit(name, options=options)


def _of_specimen(name: str, _: WorkClock) -> AuditReport:
    found = specimen_of(name.partition(" ")[2])
    in_full = "shapes" in found.detected_by or found.name.startswith(OF_SHAPES)
    options = Options(
        dtypes=found.dtypes,
        most_shapes=None if in_full else FEW_SHAPES,
        budget=BUDGET if found.engine is None else ENGINE_BUDGET,
    )
    return audit(subject_of(found), options=replace(options, **OWN_OPTIONS.get(name, {})))


def specimen_of(name: str) -> Specimen:
    """Return a specimen; raises `EngineError` where a package that it may need is not installed.

    Raises `InvalidInputError` for a name that nothing registers.
    """
    if name in SPECIMENS:
        return SPECIMENS[name]
    missing = [package for package in ("torch", "transformers") if importlib.util.find_spec(package) is None]
    if missing:
        raise EngineError(f"{name}: {', '.join(missing)} not installed")
    raise InvalidInputError(f"golden: {unknown(name, SPECIMENS, 'specimen')}")


def _of_server(stand_in: Mapping[str, Any], clock: WorkClock) -> AuditReport:
    return audit_server(_server(stand_in, clock), Options(budget=SERVER_BUDGET))


def _server(stand_in: Mapping[str, Any], clock: WorkClock, **fields: Any) -> ServerSubject:
    """Return the subject of a stand-in that answers in this process; each answer is some work."""
    from_tests, own = _stand_ins(), {**stand_in}

    def connected(options: Mapping[str, Any]) -> Any:
        server = from_tests.StandIn(**options)
        respond = server.respond

        def answer(*request: Any) -> Any:
            clock.spend(ANSWER)
            return respond(*request)

        server.respond = answer
        return connect(from_tests.InProcess(server), Sampling(top_k=3), prompts=["bc", "def"])

    reference = own.pop("reference", None)
    other = None if reference is None else connected(reference)
    return ServerSubject("stand-in", connected(own), ServerPlan(detect=DETECTED), other, **fields)


@cache
def _stand_ins() -> Any:
    """Return the module of the stand-in server, wherever it lies among the tests."""
    (file,) = (ROOT / "tests").rglob("stand_in.py")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _of_transcripts(stand_in: Mapping[str, Any], clock: WorkClock) -> AuditReport:
    """Record the long completions of a server in two audits, and judge them without it."""
    lines: list[str] = []
    server = _server(stand_in, clock, record=lambda *found: lines.append(line_of(*found)))
    options = Options(budget=SERVER_BUDGET, checks=("long-texts",), skip={"joint": ""})
    for seed in (options.seed, options.seed + 1):
        audit_server(server, replace(options, seed=seed))
    transcripts = read_all(lines)
    found = Transcripts(transcripts, seed=options.seed)
    for transcript in transcripts:
        found.add(transcript)
    subject = found.report("completions.jsonl", options.alpha, DETECTED)
    return AuditReport((subject,), options.seed, options.alpha)
