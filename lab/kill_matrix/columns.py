"""The columns of the kill matrix: what is run on a specimen.

They are the checks of the registry, as in an audit, save that `joint` of functions is its screening alone:
draws, whose number does not depend on the pace of the machine. Rules are enumerated. Only how many
`shapes` are tried may depend on that pace, where laws take long. Beside the checks stand the exact tier and
the naive test.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import chisquare

from lab.specimens.specimen import Specimen
from spec_oracle.audit import effort
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.context import Context, Inputs, ShapeLimits
from spec_oracle.audit.declared import ROUNDING, Facts
from spec_oracle.audit.draftings import DEPTH, draftings, sampled_trees
from spec_oracle.audit.draws import Calls
from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.engine.tracer import Asked, traced
from spec_oracle.audit.experiment import require_certain, run_guarded, sampled
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.results import CheckResult, How, Measured, NoEvidenceError, Status
from spec_oracle.audit.rule.joint import law_on
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.sampler.joint import SAMPLER_BATCH
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import Known, traced_law
from spec_oracle.audit.sampling import Effort
from spec_oracle.audit.subject import Subject
from spec_oracle.audit.subjects import of_engines, of_object
from spec_oracle.audit.suite import SUITES, result_of
from spec_oracle.contracts import SamplerCode, SubjectRaisedError
from spec_oracle.contracts.engine import as_list
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.call import call_verifier, fresh_state
from spec_oracle.exact.drafting import Drafting
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.statistics import pooled_cells
from spec_oracle.toy import Instance
from spec_oracle.validation import require_sample
from verifiers import Siblings, numpy_decisions

EXACT = "exact"
"""The exact tier: the law of one call, proved. All other columns are the sampling tier."""

YARDSTICK = "first-token"
"""The test that most projects have; it is shown for comparison and does not count."""

ASKED = [name for name in CHECKS if any(name in suite for suite in SUITES.values())]
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
ENGINE_TOKENS, ENGINE_SECONDS, FINDING_SECONDS = 3, 5.0, 30.0
"""Tokens of the texts of engines, seconds of each of their checks, and of a check that must find a defect."""

Column: TypeAlias = Callable[[], CheckResult]


def subject_of(specimen: Specimen) -> Subject:
    """Return a specimen as the subject of an audit."""
    declared = specimen.declared
    facts = Facts(rule_at=None if declared is None else lambda _: declared)
    if specimen.engine is not None:
        return of_engines(specimen.name, specimen.engine(), facts)
    if specimen.rule is not None:
        return RuleSubject(specimen.name, specimen.rule, facts, specimen.num_paths)
    if specimen.tree_sampler is not None:
        found = of_object(specimen.name, specimen.tree_sampler, array=specimen.array)
        assert isinstance(found, SamplerSubject)
        return replace(found, facts=facts)
    assert specimen.function is not None
    code = SamplerCode(specimen.function, specimen.array)
    return SamplerSubject(specimen.name, code, facts, specimen.num_paths)


def columns_of(specimen: Specimen, alpha: float, seed: int) -> Mapping[str, Column]:
    """Return what is run on a specimen, by column, at a false-alarm rate of ``alpha`` for all of it."""
    in_full = "shapes" in specimen.detected_by or specimen.name.startswith(OF_SHAPES)
    most_shapes = None if in_full else FEW_SHAPES
    limits = ShapeLimits(specimen.dtypes, most=most_shapes)
    bench = Context(seed, rate=alpha, shapes=limits, shrink=False)
    subject = subject_of(specimen)
    if isinstance(subject, EngineSubject):
        return _of_engines(subject, bench, specimen.detected_by)
    if isinstance(subject, RuleSubject):
        return _of_rule(subject, bench)
    assert isinstance(subject, SamplerSubject)
    trees = _first_trees(subject.on_trees)
    return {
        **_of_one_call(subject, bench, partial(_traced, subject.code, trees)),
        "joint": partial(_screening, subject.code, bench, trees),
        YARDSTICK: partial(_first_token_of_function, subject.code, bench, trees),
    }


def _first_trees(accepts: frozenset[Siblings]) -> Drafting | None:
    """Return the first kind of trees that is accepted, None for what takes paths only."""
    return next(iter(draftings(accepts, DEPTH).values()), None)


def _of_rule(rule: RuleSubject, bench: Context) -> dict[str, Column]:
    """Return what is run on a rule: its exact tier is the first kind of trees alone, or its paths."""
    trees = _first_trees(rule.on_trees)

    def law_of(instance: Instance) -> EmissionLaw:
        if trees is None:
            return law_on(rule, bench, instance, rule.paths(instance))
        return law_on(rule, bench, _as_deep_as(trees, instance), trees)

    @cache
    def joint() -> CheckResult:
        return result_of("joint", rule, bench)

    def length() -> CheckResult:
        return result_of("length", rule, replace(bench, results={"joint": joint()}))

    columns: dict[str, Column] = {**_of_one_call(rule, bench, law_of), "joint": joint, "length": length}
    if trees is not None:
        return {**columns, YARDSTICK: partial(_first_token_on_trees, rule, trees, bench)}
    if rule.carries_state:
        return columns
    return {**columns, YARDSTICK: partial(_first_token_of_function, rule.code, bench)}


def _of_engines(engines: EngineSubject, bench: Context, finding: Sequence[str]) -> dict[str, Column]:
    """Return the checks of engines, whose texts are short where requests are decoded one by one."""
    quick = replace(bench, budget=ENGINE_SECONDS)
    if not engines.cases(bench, "start_many"):
        longest = max(case.code.chosen_length + 1 for case in engines.cases(bench))
        quick = replace(quick, inputs=Inputs(tokens=max(ENGINE_TOKENS, longest)))
    results: dict[str, CheckResult] = {}

    def column(name: str) -> Column:
        seconds = FINDING_SECONDS if name in finding else ENGINE_SECONDS
        return partial(result_of, name, engines, replace(quick, results=results, budget=seconds))

    def joint() -> CheckResult:
        results["joint"] = column("joint")()
        return results["joint"]

    columns: dict[str, Column] = {name: column(name) for name in ASKED}
    columns[YARDSTICK] = partial(_first_token_of_engine, engines, bench)
    return columns if engines.cases(bench, "start_many") else {**columns, "joint": joint}


def _traced(code: SamplerCode, trees: Drafting | None, instance: Instance) -> EmissionLaw:
    """Return the exact law; raises `NoEvidenceError` where no decision was seen: they are out of sight."""
    known: Known = {}
    law = traced_law(code, _as_deep_as(trees, instance), known, drafting=trees)
    if all(one.is_certain for one in known.values()):
        target = law.instance.floats.target.joint(law.instance.draft_length + 1)
        require_certain(dict(enumerate(target.tolist())))
    return law


def _of_one_call(
    subject: Any, bench: Context, law_of: Callable[[Instance], EmissionLaw]
) -> dict[str, Column]:
    """Return the exact tier and the checks of a subject that verifies drafts which it is handed."""
    results: dict[str, CheckResult] = {}
    context = replace(bench, results=results)

    @cache
    def exact() -> CheckResult:
        found = _exact(law_of, bench.seed)
        if found.status is Status.INCONCLUSIVE:  # as `joint` says of it in an audit
            results["joint"] = CheckResult("joint", Status.PASSED, found.detail, how=How.SAMPLED)
        return found

    def shapes() -> CheckResult:
        exact()
        return result_of("shapes", subject, replace(context, budget=SHAPES_BUDGET))

    return {EXACT: exact, **_checks(subject, context), "shapes": shapes}


def _checks(subject: Any, bench: Context) -> dict[str, Column]:
    return {name: partial(result_of, name, subject, bench) for name in ASKED}


def _exact(law_of: Callable[[Instance], EmissionLaw], seed: int) -> CheckResult:
    """Prove or disprove the law of one call; the largest total variation over the instances is reported."""
    toys, worst = panel(3, 3, 1, seed), 0.0
    for name in EXACT_INSTANCES:
        try:
            with np.errstate(all="ignore"):
                law = law_of(toys[name])
        except (NotTracedError, NoEvidenceError, SubjectRaisedError) as error:
            return CheckResult(EXACT, Status.INCONCLUSIVE, str(error))
        except SpecOracleError as error:
            return CheckResult(EXACT, Status.FAILED, str(error))
        worst = max(worst, float(law.total_variation))
    status = Status.PASSED if worst <= ROUNDING else Status.FAILED
    measured = Measured(total_variation=worst)
    return CheckResult(EXACT, status, f"total variation {worst:.3g}", measured=measured)


def _as_deep_as(trees: Drafting | None, instance: Instance) -> Instance:
    """Return the instance for trees of `DEPTH` tokens; unchanged for paths."""
    return instance if trees is None else replace(instance, draft_length=DEPTH)


def _screening(code: SamplerCode, bench: Context, trees: Drafting | None = None) -> CheckResult:
    """Judge the law of one call by the screening of an audit that samples."""
    alpha = bench.rate * float(CHECKS["joint"].share)

    def screening() -> CheckResult:
        toys, calls = instances_for(bench, 1), Calls(code, bench.seed, "kill-matrix/joint")
        each = [calls.on(name, _as_deep_as(trees, toy), trees) for name, toy in toys.items()]
        looks = Effort(math.inf, SAMPLER_BATCH, turns=effort.SAMPLER_FOLLOW_UPS)
        return sampled(each, replace(bench, rate=alpha), looks, what="completions of one call")

    return run_guarded(screening)


def _first_token_of_function(code: SamplerCode, bench: Context, trees: Drafting | None = None) -> CheckResult:
    """Test the first token by chi-square: what most projects have, on a toy with a row for every prefix."""
    instance = _as_deep_as(trees, instances_for(bench, 1)["flat"])
    calls = Calls(code, bench.seed, "kill-matrix/first-token")

    def test() -> CheckResult:
        tokens = calls.emissions(instance, YARDSTICK_DRAWS, trees).tokens[:, 0]
        return _tested(tokens, _first_row(instance), bench)

    return run_guarded(test)


def _first_token_on_trees(rule: RuleSubject, trees: Drafting, bench: Context) -> CheckResult:
    """Test the first token by chi-square, as that of a function."""

    def test() -> CheckResult:
        instance = replace(instances_for(bench, 1)["flat"], draft_length=DEPTH)
        rng = bench.stream("kill-matrix/first-token")
        drafts = sampled_trees(instance, trees, YARDSTICK_DRAWS, rng)
        verdict, _ = call_verifier(
            rule.rule, drafts, numpy_decisions(rng), fresh_state(rule.rule, drafts.batch)
        )
        return _tested(verdict.emitted[:, 0], _first_row(instance), bench)

    return run_guarded(test)


def _first_token_of_engine(subject: EngineSubject, bench: Context) -> CheckResult:
    """Test the first token by chi-square: of a batch, or by its exact law where an engine can be traced."""

    def test() -> CheckResult:
        case = subject.cases(bench)[0]
        if case.code.has("start_many"):
            step = case.code.session(case.prompt, 2 * ENGINE_TOKENS, [None] * YARDSTICK_DRAWS).step()
            return _tested(step.tokens[:, 0], case.code.row(case.prompt), bench)

        def first(engine: Any, _: Any = None) -> int:
            return int(as_list(engine.generate(list(case.prompt), ENGINE_TOKENS))[0])

        try:
            law = traced(Asked(case.code, first, int, np.random.default_rng(0)), YARDSTICK_DRAWS).law
        except (NotTracedError, NoEvidenceError):
            tokens = np.array([first(case.code.engine) for _ in range(YARDSTICK_DRAWS)])
        else:
            tokens = bench.stream("kill-matrix/first-token").choice(
                [*law], YARDSTICK_DRAWS, p=[*law.values()]
            )
        return _tested(tokens, case.code.row(case.prompt), bench)

    return run_guarded(test)


def _first_row(instance: Instance) -> Any:
    return instance.floats.target.conditional(())


def _tested(tokens: Any, law: Any, bench: Context) -> CheckResult:
    counts = require_sample(np.bincount(tokens, minlength=len(law)), len(law))
    cells = pooled_cells(law, YARDSTICK_DRAWS)
    p_value = 0.0 if cells.off_support(counts) else 1.0
    if p_value and len(cells) > 1:
        p_value = float(chisquare(cells.tally(counts), YARDSTICK_DRAWS * cells.probabilities).pvalue)
    status = Status.PASSED if p_value > bench.rate else Status.FAILED
    measured = Measured(bench.rate, YARDSTICK_DRAWS)
    return CheckResult(YARDSTICK, status, f"chi-square: p-value {p_value:.3g}", measured=measured)
