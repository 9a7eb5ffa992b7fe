"""The table of checks and kinds of subjects: every cell runs, or gives its reason."""

import pytest

import verifiers
from lab.specimens.toy_system import toy_system
from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.evidence.coins import BY_COINS
from spec_oracle.audit.evidence.served import Plan, Served
from spec_oracle.audit.results import Status
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.resolve import Subject, of_object
from spec_oracle.audit.subjects.server import ServerSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.plain import PlainCode, as_plain
from spec_oracle.servers.apis import Sampling
from spec_oracle.servers.server import connect
from tests.spec_oracle.servers.stand_in import InProcess, StandIn
from tests.spec_oracle.systems.engines import Stepwise, Together


class Everything(Stepwise, Together):
    """An engine with all that an engine may have."""


KINDS = {kind.kind: kind for kind in Subject.__args__}

OF_CODE = {"joint", "shapes", "length", "calls", "streams", "batch", "bad-input", "inputs-kept", "scale"}
RUNS = {
    "verifier": OF_CODE - {"streams"},
    "function": OF_CODE,
    "uniforms": OF_CODE,
    "keyed": OF_CODE,
    "system": {"joint", "length", "calls", "draft-law", "streams", "batch"},
    "engine": {"joint", "length", "calls", "draft-law", "streams", "batch"},
    "server": {"plain-law", "joint", "length", "calls", "streams", "batch"},
}
"""The cells that are no dash."""

SUBJECTS = {
    "verifier": VerifierSubject("mine", verifiers.get("token")),
    "function": FunctionSubject("mine", PlainCode(as_plain(verifiers.get("token")))),
    "uniforms": UniformsSubject("mine", BY_COINS["token"]),
    "system": SystemSubject("mine", toy_system),
    "engine": of_object("mine", Everything),
    "server": ServerSubject(
        Served(connect(InProcess(StandIn()), Sampling(top_k=3), prompts=["bc"]), Plan(detect=0.1))
    ),
}


def test_every_kind_is_in_the_table():
    assert RUNS.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_cell_has_a_way_or_a_reason(check, kind):
    has_way, has_reason = KINDS[kind] in check.ways, bool(check.reasons.get(KINDS[kind]))
    assert has_way != has_reason
    assert has_way == (check.name in RUNS[kind])


@pytest.mark.parametrize("kind", SUBJECTS)
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_cell_runs_or_says_why_not(check, kind):
    result = check.outcome(SUBJECTS[kind], Bench(vocab_size=2, draft_length=1, budget=60.0, most_shapes=3))
    assert result.name == check.name
    assert result.detail
    if check.name not in RUNS[kind]:
        assert result.status is Status.NOT_APPLICABLE
    elif result.status is Status.NOT_APPLICABLE:
        assert (check.name, result.detail) == ("length", "no rule is declared")
    else:
        assert result.status is Status.PASSED, result.detail


def test_a_keyed_engine_has_ways_of_its_own():
    assert CHECKS["calls"].ways[KeyedSubject].run is not CHECKS["calls"].ways[FunctionSubject].run
