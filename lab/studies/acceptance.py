"""Five rules run on SmolLM2, each beside the figure that the log of the token rule gives for it.

    python -m lab.studies.acceptance --output docs/evidence/acceptance-runs.md        # needs `make lm`

One core, some minutes; the same figures every time. Every context gets a draft path of its own for each rule,
and the next token of the completion is sampled from the target whatever the rules accept. So all rules are
run at the same contexts, which depend on no count and on no draft. Given a context, what a rule accepts of
its path and what it should accept of the path of another rule then have the same expectation, and differences
of different contexts are independent.
"""

import argparse
import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy

import verifiers
from lab.chains import along, first_path
from spec_oracle.acceptance import RULES, RuleFigures, acceptance
from spec_oracle.acceptance.figures import mean_interval
from spec_oracle.acceptance.log import LoggedCalls, read_calls
from spec_oracle.acceptance.recorder import Recorder
from spec_oracle.acceptance.rules import TYPICAL_SHARE, TYPICAL_THRESHOLD, accepted_lengths
from spec_oracle.arrays import Floats
from spec_oracle.commands.options import prompts_of
from spec_oracle.language_models import LanguageModel, load_language_model
from spec_oracle.language_models.decoding import decode
from spec_oracle.report.table import markdown_table, percent
from spec_oracle.statistics import DEFAULT_MISS
from verifiers import DecisionSource, Drafts, Traits, Verdict, Verifier
from verifiers.arrays import Array, arange_like, kept, namespace, pick, zeros

TARGET, DRAFT = "smollm2", "smollm2:layers=28"
COPIES, TOKENS, LENGTH = 4, 16, 4
"""Completions of each prompt, tokens of each, and drafted tokens of a call."""

SEED = 1
RATE = 0.01
"""By chance, any of the intervals of differences misses 0 this often."""

LOGGED = "token"
"""The rule whose log gives the figures of all."""

TEXT = """# Acceptance: five rules, run and predicted

Made by `python -m lab.studies.acceptance --output docs/evidence/acceptance-runs.md`; do not edit.

The log of one run gives a figure for every rule ([Acceptance](../guide/acceptance.md#what-the-figures-mean)).
Here these figures are compared with runs of the rules: {target}, drafted by {draft}, {length} tokens a
call, temperature 1, whole vocabulary; {prompts} prompts (`docs/prompts.txt`), {copies} completions of
{tokens} tokens for each.

## At the same contexts

{calls:,} contexts of completions that are sampled from the target only. At each of them every rule verifies a
draft path of its own. *From the log*: what the log of `{logged}` gives for the rule. *Run*: what the rule
accepted of its own paths; the run of `{logged}` is the log. Both have the same expectation. Behind them are
95 % intervals, with prompts as clusters. The prompts are the same in both, so that the intervals share the
spread of the prompts, and the *difference* is judged by its own interval: Student's t over contexts, at error
rate {each:g} each. *Would be detected*: the smallest difference that such an interval shows with power 0.999.

{table}

{joint}

## When every rule writes its own completions

The same prompts, {copies} completions of {tokens} tokens for each, which every rule continues by itself.
`greedy` emits the target's most likely token after the accepted ones, `typical` a sample of the target. Calls
start where the call before ended: at other places of the text, and for `greedy` and `typical` of another
text. So these means need not equal those of the log.

{alone}
"""


@dataclass(frozen=True)
class Threshold:
    """Accept drafts up to the first that rule ``name``, greedy or typical, refuses; emit one more token."""

    traits: ClassVar = Traits(single_path=True)

    name: str

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the first path of every request."""
        target, _, tokens = first_path(drafts)
        xp, rows = namespace(tokens), target[:, :-1]
        accepts = xp.astype(self._accepts(along(rows, tokens), rows), xp.int64)
        accepted = xp.cumulative_prod(accepts, axis=1)
        tau = xp.sum(accepted, axis=1)
        row = pick(target, tau)
        is_top = arange_like(row, row.shape[1])[None, :] == xp.argmax(row, axis=1)[:, None]
        after = kept(is_top, row) if self.name == "greedy" else row
        return Verdict.on_paths(drafts, zeros(tau), tau, decisions.categorical(after))

    def _accepts(self, p: Array, rows: Array) -> Array:
        """Whether each draft of probability p [B, L] is accepted, by the target's rows [B, L, V]."""
        xp = namespace(rows)
        if self.name == "greedy":
            return p >= xp.max(rows, axis=-1)
        entropy = -xp.sum(kept(rows > 0, rows * xp.log(xp.where(rows > 0, rows, 1.0))), axis=-1)
        return p > xp.minimum(xp.full_like(p, TYPICAL_THRESHOLD), TYPICAL_SHARE * xp.exp(-entropy))


def rule(name: str) -> Verifier:
    """Return what verifies by one of `RULES`."""
    lossless: Any = verifiers.get(name) if RULES[name].is_lossless else Threshold(name)
    return lossless  # type: ignore[no-any-return]


class AtSameContexts:
    """Every rule verifies a path of its own, on record; what is emitted is a sample of the target only."""

    traits = Traits()

    def __init__(self, rules: Mapping[str, Verifier], prompts: int) -> None:
        self.rules, self.prompts = rules, prompts
        self.recorders = {name: Recorder(StringIO()) for name in rules}

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify K paths by K rules; of B requests, each n-th has the same prompt."""
        paths = drafts.paths
        own = paths.tokens, paths.draft_probs, paths.target_probs
        for path, (name, one) in enumerate(self.rules.items()):
            verdict = one.verify(Drafts.of_paths(*(array[:, path : path + 1] for array in own)), decisions)
            self._record(name, verdict.num_accepted, *(array[:, path] for array in own))
        following = decisions.categorical(paths.target_probs[:, 0, 0])
        return Verdict.on_paths(drafts, zeros(following), zeros(following), following)

    def _record(self, name: str, counts: Array, *arrays: Array) -> None:
        recorder = self.recorders[name]
        for request, (accepted, tokens, draft, target) in enumerate(zip(counts, *arrays, strict=True)):
            recorder.prompt = request % self.prompts
            recorder.write(tokens.tolist(), int(accepted), target.numpy(), draft.numpy())

    def calls(self) -> dict[str, LoggedCalls]:
        """Return what was recorded, by the rule that verified."""
        return {
            name: read_calls(one.file.getvalue().splitlines())  # type: ignore[attr-defined]
            for name, one in self.recorders.items()
        }


def at_same_contexts(
    rules: Mapping[str, Verifier],
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    copies: int = COPIES,
    tokens: int = TOKENS,
    seed: int = SEED,
) -> dict[str, LoggedCalls]:
    """Return the calls of each rule, [copies * prompts * tokens], call n of all at the same context."""
    import torch

    beside, generator = AtSameContexts(rules, len(prompts)), torch.Generator().manual_seed(seed)
    decode(
        beside,
        target,
        draft,
        [*prompts] * copies,
        max_new_tokens=tokens,
        draft_length=LENGTH,
        num_paths=len(rules),
        generator=generator,
    )
    return beside.calls()


@dataclass(frozen=True)
class Compared:
    """A rule's figure from a log, its run with a 95 % interval, both accepted tokens per call.

    ``difference`` is run minus log, with an interval that misses with probability ``rate``; the smallest
    difference that such an interval shows with probability 0.999 is ``detects``.
    """

    figure: RuleFigures
    run: float
    interval: tuple[float, float]
    difference: float
    half: float
    detects: float

    @property
    def agrees(self) -> bool:
        """Whether the interval of the difference has 0 in it."""
        return abs(self.difference) <= self.half


def compared(calls: Mapping[str, LoggedCalls], rate: float = RATE) -> dict[str, Compared]:
    """Compare each rule's run with its figure from the log of `LOGGED`, at error rate ``rate`` over all."""
    log = calls[LOGGED]
    figures = {one.name: one for one in acceptance(log, rule=LOGGED).rules}
    found = {}
    for name, own in calls.items():
        predicted = accepted_lengths(RULES[name].chances(log, 0.0)).sum(axis=1)
        # The path of the token rule itself is the one on the log: its run is compared with these very drafts.
        gaps: Floats = np.asarray(own.accepted - predicted, dtype=np.float64)
        error = float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
        quantile = float(scipy.stats.t.isf(rate / len(calls) / 2, len(gaps) - 1))
        found[name] = Compared(
            figures[name],
            float(own.accepted.mean()),
            mean_interval(own.accepted.astype(float), own.prompts),
            float(gaps.mean()),
            quantile * error,
            (quantile + float(scipy.stats.norm.isf(DEFAULT_MISS))) * error,
        )
    return found


def alone(
    name: str, target: LanguageModel, draft: LanguageModel, prompts: Sequence[Sequence[int]]
) -> tuple[int, float, tuple[float, float]]:
    """Let a rule write completions; return its calls, and its mean with a 95 % interval."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    sizes = {"max_new_tokens": TOKENS, "draft_length": LENGTH, "generator": generator}
    found = decode(rule(name), target, draft, [*prompts] * COPIES, **sizes)
    requests = np.concatenate(found.requests)
    lengths = found.accepted_lengths.astype(float)
    return len(lengths), float(lengths.mean()), mean_interval(lengths, (requests % len(prompts)).tolist())


def interval(ends: tuple[float, float]) -> str:
    """Return an interval of accepted tokens per call."""
    return f"({ends[0]:.3f} to {ends[1]:.3f})"


def table(found: Mapping[str, Compared]) -> str:
    """Return a line for each rule."""
    rows = [
        (
            f"`{name}`",
            f"{one.figure.expected:.3f} {interval(one.figure.interval)}",
            f"{one.run:.3f} {interval(one.interval)}",
            f"{one.difference:+.3f} ({one.difference - one.half:+.3f} to {one.difference + one.half:+.3f})",
            f"{one.detects:.3f} ({percent(one.detects / one.figure.expected, 0)})",
            "yes" if one.agrees else "**no**",
        )
        for name, one in found.items()
    ]
    head = ("rule", f"from the log of `{LOGGED}`", "run", "difference", "would be detected", "agree")
    return markdown_table(head, rows)


def joint(found: Mapping[str, Compared]) -> str:
    """Return the statement about all rules at once."""
    differing = [f"`{name}`" for name, one in found.items() if not one.agrees]
    says = (
        f"The figures of all {len(found)} rules agree with their runs"
        if not differing
        else f"The figures of {' and '.join(differing)} differ from their runs"
    )
    most = percent(max(one.detects / one.figure.expected for one in found.values()), 0)
    return (
        f"{says}. If all figures are right, some rule is said to differ with probability {RATE:g} at most "
        f"(Bonferroni; Student's t is approximate). A difference of {most} of the figure would be detected "
        "for every rule, with probability 0.999."
    )


def page(
    found: Mapping[str, Compared],
    own: Mapping[str, tuple[int, float, tuple[float, float]]],
    calls: int,
    prompts: int,
) -> str:
    """Return the page."""
    rows = [
        (f"`{name}`", f"{count:,}", f"{mean:.3f} {interval(ends)}", f"{found[name].figure.expected:.3f}")
        for name, (count, mean, ends) in own.items()
    ]
    return TEXT.format(
        target=TARGET,
        draft=DRAFT,
        length=LENGTH,
        prompts=prompts,
        copies=COPIES,
        tokens=TOKENS,
        calls=calls,
        logged=LOGGED,
        each=RATE / len(found),
        table=table(found),
        joint=textwrap.fill(joint(found), 108),
        alone=markdown_table(("rule", "calls", "accepted per call, alone", "at the contexts above"), rows),
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Five rules on SmolLM2, run and predicted by a log.")
    parser.add_argument("--output", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--prompts", type=Path, default=Path("docs/prompts.txt"), help="a prompt a line")
    arguments = parser.parse_args()
    target, draft = load_language_model(TARGET), load_language_model(DRAFT)
    prompts = [target.encode(prompt) for prompt in prompts_of(arguments.prompts)]
    calls = at_same_contexts({name: rule(name) for name in RULES}, target, draft, prompts)
    own = {name: alone(name, target, draft, prompts) for name in RULES}
    text = page(compared(calls), own, len(calls[LOGGED].lengths), len(prompts))
    arguments.output.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
