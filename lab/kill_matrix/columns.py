"""The columns of the kill matrix: what is run on a specimen.

They are the checks of the registry, as in an audit, save that `joint` of functions is its screening alone:
draws, whose number does not depend on the pace of the machine. Verifiers are enumerated. Only how many
`shapes` are tried may depend on that pace, where laws take long. Beside the checks stand the exact tier and
the naive test.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import chisquare

from lab.specimens.specimen import Specimen
from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.checks.check import settled
from spec_oracle.audit.draws import Sample, Sampler, checks_own_rng, sampled_drafts
from spec_oracle.audit.evidence.intercepted import intercepted_law
from spec_oracle.audit.evidence.sampled import screened
from spec_oracle.audit.evidence.watched import judged
from spec_oracle.audit.facts import ROUNDING, Facts
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects.engine import EngineSubject
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.resolve import of_engines
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.plain import PlainCode, SubjectRaisedError
from spec_oracle.statistics import pooled_cells
from spec_oracle.statistics.validation import require_sample
from spec_oracle.systems.engine import as_list
from spec_oracle.systems.engine_laws import enumerated
from spec_oracle.systems.texts import decoded, unseeded
from spec_oracle.toy import Instance
from verifiers import StatefulVerifier

EXACT = "exact"
"""The exact tier: the law of one call, proved. All other columns are the sampling tier."""

YARDSTICK = "first-token"
"""The test that most projects have; it is shown for comparison and kills nothing."""

ASKED = {
    name: check for name, check in CHECKS.items() if {FunctionSubject, SystemSubject} & check.ways.keys()
}
"""The checks that can be run on a specimen."""

COLUMNS = (EXACT, *ASKED, YARDSTICK)

OF_SHAPES = "shape-"
"""How the names of specimens begin that are about shapes; all shapes are tried on them."""

FEW_SHAPES = 8
"""How many shapes are tried on the others."""

SHAPES_BUDGET = 150.0
"""Seconds: batches of many requests, each drawing on its own, have laws without end."""

EXACT_INSTANCES = ("flat", "peaked", "zeros")
YARDSTICK_DRAWS = 5000
ENGINE_TOKENS, ENGINE_SECONDS = 3, 20.0
"""How long texts of engines are, and what their checks may take that draw."""

Column: TypeAlias = Callable[[], CheckResult]


def columns_of(specimen: Specimen, alpha: float, seed: int) -> Mapping[str, Column]:
    """Return what is run on a specimen, by column, at a false-alarm rate of ``alpha`` for all of it."""
    rule = specimen.rule
    facts = Facts(rule_at=None if rule is None else lambda _: rule)
    in_full = "shapes" in specimen.killers or specimen.name.startswith(OF_SHAPES)
    bench = Bench(alpha=alpha, seed=seed, most_shapes=None if in_full else FEW_SHAPES)
    if specimen.system is not None:
        system = SystemSubject(specimen.name, specimen.system, facts)
        return {**_checks(system, bench), YARDSTICK: partial(_first_token_of_system, system, bench)}
    if specimen.engine is not None:
        bench = replace(bench, tokens=ENGINE_TOKENS, budget=ENGINE_SECONDS)
        engine = of_engines(specimen.name, {"": specimen.engine()}, facts)
        return {**_checks(engine, bench), YARDSTICK: partial(_first_token_of_engine, engine, bench)}
    if specimen.verifier is not None:
        verifier = VerifierSubject(specimen.name, specimen.verifier, facts)
        columns = _of_one_call(verifier, bench, partial(emission_law, specimen.verifier, merged=False))
        if isinstance(specimen.verifier, StatefulVerifier):
            return columns
        return {**columns, YARDSTICK: partial(_first_token_of_function, verifier.code, bench)}
    assert specimen.function is not None
    code = PlainCode(specimen.function, specimen.array)
    subject = FunctionSubject(specimen.name, code, facts)
    return {
        **_of_one_call(subject, bench, partial(intercepted_law, code)),
        "joint": partial(_screening, code, bench),
        YARDSTICK: partial(_first_token_of_function, code, bench),
    }


def _of_one_call(subject: Any, bench: Bench, law_of: Callable[[Instance], EmissionLaw]) -> dict[str, Column]:
    """Return the exact tier and the checks of a subject that verifies drafts which it is handed."""
    shapes = partial(CHECKS["shapes"].outcome, subject, replace(bench, budget=SHAPES_BUDGET))
    return {EXACT: partial(_exact, law_of, bench.seed), **_checks(subject, bench), "shapes": shapes}


def _checks(subject: Any, bench: Bench) -> dict[str, Column]:
    return {name: partial(check.outcome, subject, bench) for name, check in ASKED.items()}


def _exact(law_of: Callable[[Instance], EmissionLaw], seed: int) -> CheckResult:
    """Prove or disprove the law of one call; the largest total variation over the instances is reported."""
    toys, worst = panel(3, 3, 1, seed), 0.0
    for name in EXACT_INSTANCES:
        try:
            with np.errstate(all="ignore"):
                law = law_of(toys[name])
        except (NotTracedError, SubjectRaisedError) as error:
            return CheckResult(EXACT, Status.INCONCLUSIVE, str(error))
        except SpecOracleError as error:
            return CheckResult(EXACT, Status.FAILED, str(error))
        worst = max(worst, float(law.total_variation))
    status = Status.PASSED if worst <= ROUNDING else Status.FAILED
    return CheckResult(EXACT, status, f"total variation {worst:.3g}", total_variation=worst)


def _screening(code: PlainCode, bench: Bench) -> CheckResult:
    """Judge the law of one call by the screening of an audit that samples."""
    alpha = bench.alpha * float(CHECKS["joint"].share)

    def screen() -> CheckResult:
        samples = [Sample.of(instance) for instance in bench.toys(1).values()]
        process = screened(Sampler(code, bench.seed), samples, alpha=alpha, seconds=np.inf)
        return judged("the law of one call", process, alpha)

    return settled(screen)


def _first_token_of_function(code: PlainCode, bench: Bench) -> CheckResult:
    """Test the first token by chi-square: what most projects have, on a toy with a row for every prefix."""
    instance = bench.toys(1)["flat"]
    drafts = sampled_drafts(instance, YARDSTICK_DRAWS, checks_own_rng(bench.seed))
    return settled(
        lambda: _tested(code(drafts, code.generator(bench.seed)).tokens[:, 0], _first_row(instance), bench)
    )


def _first_token_of_system(subject: SystemSubject, bench: Bench) -> CheckResult:
    """Test the first token by chi-square, of drafts that the system draws itself."""

    def test() -> CheckResult:
        system = subject.factory(subject.toys(bench)["flat"], bench.seed)
        _, steps = decoded(system, system.start(unseeded(YARDSTICK_DRAWS)), YARDSTICK_DRAWS, 1)
        return _tested(steps[0].tokens[:, 0], _first_row(system.instance), bench)

    return settled(test)


def _first_token_of_engine(subject: EngineSubject, bench: Bench) -> CheckResult:
    """Test the first token of texts by chi-square: drawn from their law, which takes an engine too long."""

    def test() -> CheckResult:
        (case,) = subject.cases(bench)
        texts = enumerated(
            case.code,
            lambda engine: as_list(engine.generate(list(case.prompt), ENGINE_TOKENS)),
            lambda text: int(text[0]),
            YARDSTICK_DRAWS,
        )
        tokens = checks_own_rng(bench.seed).choice([*texts.law], YARDSTICK_DRAWS, p=[*texts.law.values()])
        return _tested(tokens, case.code.row(case.prompt), bench)

    return settled(test)


def _first_row(instance: Instance) -> Any:
    return instance.floats.target.conditional(())


def _tested(tokens: Any, law: Any, bench: Bench) -> CheckResult:
    counts = require_sample(np.bincount(tokens, minlength=len(law)), len(law))
    cells = pooled_cells(law, YARDSTICK_DRAWS)
    p_value = 0.0 if cells.off_support(counts) else 1.0
    if p_value and len(cells) > 1:
        p_value = float(chisquare(cells.tally(counts), YARDSTICK_DRAWS * cells.probabilities).pvalue)
    status = Status.PASSED if p_value > bench.alpha else Status.FAILED
    return CheckResult(YARDSTICK, status, f"chi-square: p-value {p_value:.3g}", bench.alpha, YARDSTICK_DRAWS)
