"""The check `shapes` of coupled rules: other sizes, numbers of paths, and float32.

At each size the rule is called beside the built-in rule that `joint` found it to be. Where it emits something
else, or is none of them, completions of one call are sampled.
"""

from functools import partial

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.reference import compared_on
from spec_oracle.audit.coupled.subject import CoupledSubject, requests
from spec_oracle.audit.coupled.toys import chosen_instances
from spec_oracle.audit.draws import completion, extended_cells
from spec_oracle.audit.results import CheckResult, How, Status, passed
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.statistics import split
from spec_oracle.toy import Instance

SIZES = (
    *((2, 1, 1, "float64"), (2, 4, 2, "float64"), (3, 2, 4, "float64"), (5, 2, 1, "float64")),
    *((16, 1, 2, "float64"), (3, 1, 1, "float32"), (4, 2, 3, "float32")),
)
"""V, L, K, and the number type of rows and uniforms; rules of one path have one everywhere."""


def shapes(subject: CoupledSubject, context: Context) -> CheckResult:
    """Judge the rule at each size on the instances that show most, each size at its part of the rate."""
    most = 1 if subject.num_paths == 1 else max(paths for _, _, paths, _ in SIZES)
    sizes = [
        (vocab, length, min(paths, most), dtype)
        for vocab, length, paths, dtype in SIZES
        if dtype == "float64" or dtype in context.dtypes
    ]
    parts = [_at(subject, context, split(context.rate, len(sizes)), *size) for size in sizes]
    if wrong := [one for one in parts if one.status is Status.FAILED]:
        return wrong[0]
    sampled = [one for one in parts if one.how is How.SAMPLED]
    beside = len(parts) - len(sampled)
    said = [f"same tokens as {context.findings.rule} at {beside} other sizes"] if beside else []
    if sampled:
        draws = sum(one.draws for one in sampled)
        said.append(f"{draws:,} samples at {len(sampled)} other sizes are as expected")
    how = How.SAMPLED if sampled else How.REPLAYED
    listed = f"other sizes: {'; '.join(_said(*size) for size in sizes)}"
    scope, draws = (listed, *(one.detail for one in sampled)), sum(one.draws for one in parts)
    return passed("; ".join(said), alpha=context.rate, draws=draws, how=how, scope=scope)


def _at(  # noqa: PLR0917
    subject: CoupledSubject, context: Context, rate: float, vocab: int, length: int, paths: int, dtype: str
) -> CheckResult:
    """Judge one size: beside the rule that `joint` found, or else by samples."""
    where = _said(vocab, length, paths, dtype)
    rng, rule = context.stream(f"coupled/shapes/{where}"), context.findings.rule
    instances = chosen_instances(vocab, length, paths, context.seed)
    if rule is not None:
        batch = effort.COUPLED_ROUND
        found = [compared_on(subject.code, rule, one, batch, rng, dtype) for one in instances]
        if not any(one.apart for one in found):
            return passed("", draws=batch * len(found), how=How.REPLAYED)

    def round_on(toy: Instance) -> Integers:
        found = subject.code(*requests(toy, effort.COUPLED_ROUND, rng, dtype))
        return extended_cells(toy, found.tokens, found.lengths, rng)

    rounds = ([round_on(toy) for toy in instances] for _ in range(effort.COUPLED_ROUNDS))
    laws, named = (
        [one.floats.target.joint(length + 1) for one in instances],
        partial(completion, instances[0]),
    )
    return judge_rounds(
        f"completions at {where}", laws, rounds, alpha=rate, named=named, admitted=context.admitted
    )


def _said(vocab: int, length: int, paths: int, dtype: str) -> str:
    return f"V = {vocab}, L = {length}, K = {paths}, {dtype}"
