"""The catalogue of defects as a page of Markdown: what, which check, planted where, reported where."""

from collections import defaultdict
from collections.abc import Sequence

from lab.specimens.catalogue import FAMILIES, MUTANT, Entry, catalogue
from lab.specimens.registry import specimens, survivors
from lab.specimens.specimen import Specimen
from spec_oracle.report.table import markdown_table

_HEAD = ("id", "what goes wrong", "check", "first token", "planted as", "threads")
_CONTROLS_HEAD = ("id", "why it is right", "planted as", "threads")

_INTRODUCTION = """\
# The catalogue of defects

What went wrong, or was said to go wrong, in public implementations of speculative decoding, in our words.
Made by `{command}` from `lab/specimens/catalogue.tsv`; not edited by hand.

{figures}

## How to read it

* **id**: one mechanism. A to H are defects by what they break, N is lossless code that was reported as
  lossy, L is lossy by design. `python -m lab.specimens` and [its page](specimens.md) go by these ids.
* **what goes wrong**: p is the target's row, q the draft's, x the drafted token, u the uniform of the
  accept test, r = min(1, p/q).
* **check**: those of `spec-oracle audit` that must see it, the most telling first. Where specimens are
  planted, a test holds them to it; elsewhere it is what the check is made for. `joint` compares the law of
  a whole call.
* **first token**: whether a test of the first emitted token, which most projects have, sees it. *no*: its
  law is right, or what is wrong is no law. *depends*: on rows that differ after every prefix, on drafts of
  the system's own drafter, on a temperature other than 1, on several drafts, requests or at least three
  tokens, or on many draws.
* **planted as**: the faulty verifiers, functions and systems of `lab.specimens` that have the
  defect, each isolated. Those that survive are not found by an audit at its defaults:
  [why](../how-it-works/what-it-does-not-see.md). No name: not planted yet, as a rule because toys have no
  such part (grammars, ranks, compilers). What servers report (R) is planted in the stand-in server of the
  tests.
* **threads**: the public report, and the repair beside it. *review*: found before a release. *near*: the
  entry is our own neighbour of real defects, which completes its family, and the thread the nearest report.
  Without a thread it is ours.
"""

_LIMITS = """\
## Limits

* Mechanisms are as the threads tell them; no engine was run for this page. What was run is in
  [engines](../guide/engines.md) and the findings in `docs/findings`. Threads were read in November 2026, and
  some will have moved on.
* Not exhaustive: that a project is not here says nothing about it.
* D20 and L8 are reports of users; nobody has shown the cause.
* Greedy text that differs between batch sizes is no defect of a verifier: near ties flip with the shape of
  a matrix product. Checks hand the verifier its rows, so that such noise cannot enter.
"""


def to_markdown(command: str) -> str:
    """Return the page; ``command`` is what makes it."""
    planted: defaultdict[str, list[Specimen]] = defaultdict(list)
    for listed in (specimens(), specimens(num_paths=2), survivors()):
        for specimen in sorted(listed.values(), key=lambda one: one.name):
            planted[specimen.catalogue_id].append(specimen)
    parts = [_INTRODUCTION.format(command=command, figures=_figures(planted))]
    for letter, title in FAMILIES.items():
        entries = [entry for number, entry in catalogue().items() if number.startswith(letter)]
        head = _CONTROLS_HEAD if entries[0].is_control else _HEAD
        table = markdown_table(head, [_row(entry, planted[entry.number]) for entry in entries])
        parts.append(f"## {letter}: {title}\n\n{table}\n")
    mutants = _names(planted[MUTANT])
    parts.append(f"## Mutants without a number\n\nDefects that no thread is about, planted as {mutants}.\n")
    return "\n".join([*parts, _LIMITS])


def _figures(planted: defaultdict[str, list[Specimen]]) -> str:
    defects = [number for number, entry in catalogue().items() if not entry.is_control]
    found = [planted[number] for number in defects if planted[number]]
    return (
        f"{len(defects)} defects, those by design included, and {len(catalogue()) - len(defects)} controls. "
        f"{len(found)} of the defects are planted, as {sum(map(len, found))} specimens; "
        f"{len(planted[MUTANT])} more specimens are mutants without a number."
    )


def _row(entry: Entry, planted: Sequence[Specimen]) -> tuple[str, ...]:
    anchor = f'<a id="{entry.number}"></a>{entry.number}'
    names = _names(planted)
    if entry.is_control:
        return anchor, entry.mechanism, names, _threads(entry)
    checks = ", ".join(f"`{check}`" for check in entry.checks)
    return anchor, entry.mechanism, checks, entry.first_token, names, _threads(entry)


def _names(planted: Sequence[Specimen]) -> str:
    return ", ".join(f"`{one.name}`{' (survives)' * bool(one.survives)}" for one in planted)


def _threads(entry: Entry) -> str:
    mark = {"reported": "", "review": "review: ", "ours": "near: "}[entry.origin]
    return mark + ", ".join(map(_link, entry.threads)) if entry.threads else ""


def _link(thread: str) -> str:
    _, repository, _, number = thread.split("/")
    return f"[{repository} #{number}](https://github.com/{thread})"
