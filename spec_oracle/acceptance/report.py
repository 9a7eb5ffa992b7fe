"""The figures of an acceptance log and of the rules, as text, Markdown and JSON."""

import math
from collections.abc import Iterator
from dataclasses import asdict

from spec_oracle.acceptance import RULES, Acceptance, RuleFigures
from spec_oracle.acceptance.evidence import CONFIDENCE, HIGHEST_SHARE, WIDEST
from spec_oracle.acceptance.log import AGGREGATES, Aggregate
from spec_oracle.acceptance.where import Part
from spec_oracle.arrays import Json
from spec_oracle.report.audit_json import header
from spec_oracle.report.table import Table, formats, percent, plain, plural, short

HEAD = (
    "rule",
    "lossless",
    "accepted/call",
    f"{percent(CONFIDENCE, 0)} interval",
    "reported is",
    "fits the counts",
)


BEHIND_A_REJECTION = "are drafts counted that come behind a rejected one?"
"""The question where more is accepted than any rule can accept (vllm #10604)."""


def _tables(found: Acceptance) -> Iterator[Table]:
    """Yield the verdict, the rules and the definitions."""
    yield Table((), (), above="\n".join(_verdict(found)))
    rows = [_row(found, one) for one in found.rules]
    lacking = found.missing.items()
    rows += [(name, "", f"needs {' and '.join(fields)}", "", "", "unknown") for name, fields in lacking]
    yield Table(HEAD, rows, (2, 4), "What each rule should accept of the same drafts, in these very calls:")
    shown = [
        (one.name, one.also_called, short(one.reported), short(one.expected)) for one in found.definitions
    ]
    head = ("acceptance as", "also called", "reported", f"expected of {found.rule}")
    yield Table(head, shown, (2, 3), "The same in the words of engines:")


def _row(found: Acceptance, one: RuleFigures) -> tuple[str, ...]:
    low, high = one.bounds
    is_exact = high - low < 0.01
    expected = short(one.expected) if is_exact else f"{short(low)}..{short(high)}"
    share = percent(found.reported / one.expected) if one.expected and is_exact else "-"
    fits = "yes" if one.name in found.fitting else "no"
    lossless = "yes" if RULES[one.name].is_lossless else "no"
    return one.name, lossless, expected, _interval(one.interval), share, fits


def _interval(ends: tuple[float, float]) -> str:
    low, high = (short(one, 4) for one in ends)
    return f"{low}..{high}"


def _verdict(found: Acceptance) -> Iterator[str]:
    own = found.rules[0]
    yield (
        f"{found.file}: {plural(found.calls, 'call')}, {found.drafted:,} drafted tokens; "
        f"reported: {found.accepted:,} accepted, {short(found.reported)} a call"
    )
    low, high = map(percent, found.share)
    interval = f": {low} or more" if found.share[1] >= HIGHEST_SHARE else f" {low} to {high}"
    yield (
        f"expected of {found.rule}, given these drafts: {short(own.expected)} a call; reported is "
        f"{percent(found.share_of_expected)} of it ({percent(CONFIDENCE, 0)} interval{interval})"
    )
    if found.disagrees:
        yield f"the counts contradict {found.rule} (false-alarm rate {found.alpha:g}): {_difference(found)}"
        if found.impossible:
            yield f"in {plural(found.impossible, 'call')} {found.rule} accepts this many with probability 0"
        names = " and ".join(found.fitting)
        yield f"they fit: {names}" if names else "they fit none of the rules below"
    else:
        yield f"the counts agree with {found.rule}; {_sensitivity(found)}"
    yield from map(_aggregate, found.aggregates)
    yield from _conclusion(found)
    if not all(one.agrees for one in found.aggregates):
        yield "fails: the engine reports other figures than its log has"


def _conclusion(found: Acceptance) -> Iterator[str]:
    """Yield why the counts pass or fail, unless a line before said it, and what to ask next."""
    question = _question(found)
    rule = f"{question and f'{question} if not, '}is {found.rule} the rule of this engine? (--rule)"
    if found.counts_pass is False and found.accepts_more:
        yield f"fails: more is accepted than {found.rule} accepts; {rule}"
    elif found.disagrees and not found.is_fewer_alike:
        yield f"fails: {found.where.question if found.where else rule}"
    elif found.at_least is not None:
        wanted = f"at least {percent(found.at_least)} of the expected tokens"
        too_few = f"inconclusive: too few calls to know whether {wanted} are accepted; log more calls"
        yield {True: f"passes: {wanted}", False: f"fails: {wanted} were required", None: too_few}[
            found.counts_pass
        ]
    elif found.counts_pass is None:
        unnoticed = f"acceptance probabilities {percent(found.detect)} lower might go unnoticed"
        yield f"inconclusive: {unnoticed}; log more calls, or raise --detect"


def _question(found: Acceptance) -> str:
    """Return what to look for in the engine, where the counts show more than that they are off; else ""."""
    if found.where is not None:
        return found.where.question
    is_more = found.share_of_expected is None or found.share_of_expected > 1
    return BEHIND_A_REJECTION if found.impossible and is_more and not found.fitting else ""


def _difference(found: Acceptance) -> str:
    """Return how the counts differ from those of the rule."""
    if (part := found.where) is not None:
        return (
            f"most of the difference is {part.name}, in {plural(part.calls, 'call')}: "
            f"{part.reported:,} accepted tokens reported, {part.expected:,.0f} expected; "
            f"{part.others[0]:,} and {part.others[1]:,.0f} in all others"
        )
    if found.factor is None:
        return f"no single factor of {found.rule}'s acceptance probabilities explains them"
    factor, least, most = found.factor
    less = "less" if factor < 1 else "more"
    # No factor beyond the widest is fitted: one at that edge is a bound.
    bound = "" if abs(math.log(factor)) < 0.999 * WIDEST else "at most " if factor < 1 else "at least "
    return (
        f"each drafted token is accepted {bound}{factor:.3f} times as often as by {found.rule}, {less} than "
        f"it should be ({percent(CONFIDENCE, 0)} interval {least:.3f} to {most:.3f})"
    )


def _aggregate(one: Aggregate) -> str:
    """Return whether a reported aggregate agrees with the log."""
    said = f"--reported {one.name}={','.join(one.given)}"
    if one.agrees:
        return f"{said} agrees with the log ({AGGREGATES[one.name]})"
    logged = ",".join(short(value) for value in one.logged)
    return f"{said} contradicts the log, which has {logged} ({AGGREGATES[one.name]})"


def _sensitivity(found: Acceptance) -> str:
    low, high = found.detects
    parts = [f"{percent(1 - low)} lower"] if low > 0 else []
    parts += [f"{percent(high - 1)} higher"] if high < math.inf else []
    if not parts:
        return "too few calls to detect any other factor of the acceptance probabilities"
    return f"acceptance probabilities all {' or all '.join(parts)} would be detected (power 0.999)"


def _part(part: Part) -> dict[str, Json]:
    others = part.others
    return {
        "calls_with": part.name,
        "calls": part.calls,
        "reported": part.reported,
        "expected": part.expected,
        "reported_elsewhere": others[0],
        "expected_elsewhere": others[1],
        "question": part.question,
    }


def _data(found: Acceptance) -> dict[str, Json]:
    def pair(ends: tuple[float, ...]) -> list[str | float | None]:
        return [plain(end) for end in ends]

    return {
        **header(),
        "file": found.file,
        "rule": found.rule,
        "exit_code": found.exit_code,
        "alpha": found.alpha,
        "at_least": found.at_least,
        "calls": found.calls,
        "prompts": found.prompts,
        "drafted": found.drafted,
        "accepted": found.accepted,
        "reported": found.reported,
        "reported_interval": pair(found.interval),
        "p_value": found.p_value,
        "impossible_calls": found.impossible,
        "agrees": not found.disagrees,
        "factor": None if found.factor is None else found.factor[0],
        "factor_interval": None if found.factor is None else pair(found.factor[1:]),
        "where": None if found.where is None else _part(found.where),
        "aggregates": [asdict(one) for one in found.aggregates],
        "detects_factors": pair(found.detects),
        "detects_share": found.detects_share,
        "share_of_expected": plain(found.share_of_expected),
        "share_interval": pair(found.share),
        "share_at_alpha": pair(found.share_at_alpha),
        "rules": [
            {
                "rule": one.name,
                "lossless": RULES[one.name].is_lossless,
                "accepts": RULES[one.name].says,
                "expected": one.expected,
                "bounds": pair(one.bounds),
                "interval": pair(one.interval),
                "p_value": one.p_value,
                "fits": one.name in found.fitting,
            }
            for one in found.rules
        ],
        "missing": {name: list(fields) for name, fields in found.missing.items()},
        "definitions": [asdict(one) for one in found.definitions],
    }


FORMATS = formats(_tables, _data, "spec-oracle acceptance")
