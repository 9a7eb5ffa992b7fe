"""The check `length` of servers: counts of drafts are possible, and all parts of an answer end together.

Nothing is known of the drafter, so no distribution of the accepted length is declared. What ends a completion
inside a block of accepted drafts, a stop string or a limit, must end its text, ids, log-probabilities and
count there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import run_guarded
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, not_asked, passed
from spec_oracle.contracts.completion import Completion
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import Ask, RefusedError, impossible_counts

SERVER_STOPS: Final = 24  # Completions under no stop string, under one and under two: so many of each.

MISSED = 14
"""Times that drafts of another length would show, on average, where none did."""

STOP = 2
"""Characters before a stop string may stand."""

LOOK_AT_COUNTS = "look at how the server counts drafted and accepted tokens"
CUT_OFF = (
    "if the server counts accepted tokens that its limit cuts off, leave this out: --skip length; else "
) + LOOK_AT_COUNTS
LOOK_AT_ENDS = "look at where the server ends text, ids, log-probabilities and count: one place is expected"

WORST_FIRST = (Status.FAILED, Status.INCONCLUSIVE, Status.NOT_RUN, Status.PASSED, Status.NOT_APPLICABLE)

UNREADABLE = "\ufffd"
"""A part of a character: where tokens of such stand, ids and text are not compared."""


def length(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge the counts of drafts, and where completions end that a stop string or the limit ends."""
    del context
    results = [run_guarded(partial(counts, subject))]
    if results[0].status is not Status.FAILED:
        results.append(run_guarded(partial(ends, subject)))
    first = min(results, key=lambda one: WORST_FIRST.index(one.status))
    if first.status is Status.FAILED:
        return first
    others = [one.detail for one in results if one.status is Status.PASSED and one is not first]
    return replace(first, detail="; ".join([first.detail, *others]))


def counts(subject: ServerSubject) -> CheckResult:
    """Judge the counts that came with the completions of `joint`; a call emits one more than it accepts."""
    completions = subject.completions
    if not completions.found:
        completions.sample(effort.SERVER_PILOT)
    draws = len(completions.found)
    if completions.drafts.accepted is None:
        # The counters are read twice: one of them may be behind another while a call is counted.
        if completions.counted().contradiction and (wrong := completions.counted().contradiction):
            said = f"the server's counters report {wrong}"
            return failed(said, draws=draws, how=How.SAMPLED, do=LOOK_AT_COUNTS)
        return not_asked("the server does not report accepted tokens with its completions")
    if odd := completions.odd:
        is_beyond_limit = 0 <= (odd.accepted or 0) <= (odd.drafted or 0)
        do = CUT_OFF if is_beyond_limit else LOOK_AT_COUNTS
        return failed(impossible_counts(odd), draws=draws, how=How.SAMPLED, do=do)
    after_first = sum(len(tokens) - 1 for _, tokens in completions.found)
    mean = after_first / max(1, after_first - completions.drafts.accepted)
    if wrong := counted_too_often(completions.counts, completions.length):
        do = (
            "if its drafts are longer where they are surer to be accepted, leave this out: --skip length; "
            "else compare the counts with the engine's own log: spec-oracle acceptance LOG"
        )
        return inconclusive(wrong, draws=draws, how=How.SAMPLED, do=do)
    detail = f"{completions.drafts.accepted:,.0f} tokens accepted, {mean:.3g} tokens per call"
    return passed(detail, draws=draws, how=How.SAMPLED)


def counted_too_often(counts: Mapping[tuple[int, int], int], tokens: int) -> str:
    """Say that counts contradict drafts of a fixed length, "" if they do not, or the length is not fixed.

    ``counts`` are those of completions by (drafted, accepted), of ``tokens`` tokens each. A call emits its
    accepted tokens and one more, so the length of drafts and the number of tokens leave few pairs possible.
    Completions without an accepted draft show the length: a wrong count of accepted ones cannot change them.
    """
    none_accepted = {drafted: count for (drafted, accepted), count in counts.items() if not accepted}
    ways = product([tokens], range(1, tokens + 1), (0, 1), (None, 0, 1, 2), (1, 2, 3))
    possible = [_possible_counts(*way) for way in ways]
    fitting = [pairs for pairs in possible if all((drafted, 0) in pairs for drafted in none_accepted)]
    odd = [{pair: count for pair, count in counts.items() if pair not in pairs} for pairs in fitting]
    if not none_accepted or not odd:
        return ""
    fewest = min(odd, key=lambda pairs: sum(pairs.values()))
    total, wrong, shown = sum(counts.values()), sum(fewest.values()), sum(none_accepted.values())
    # Drafts of another length now and then would show among these, too, but for a chance of 1e-6.
    if wrong * shown < MISSED * total:
        return ""
    drafted, accepted = max(fewest, key=lambda pair: fewest[pair])
    return (
        f"{wrong:,} of {total:,} completions of {tokens} tokens count more accepted drafts than their calls "
        f"can have, such as {accepted} of {drafted}, if each call drafts equally many, as completions "
        "without an accepted draft show"
    )


@cache
def _possible_counts(
    tokens: int, length: int, start: int, kept: int | None, least: int
) -> frozenset[tuple[int, int]]:
    """Return pairs of drafted and accepted tokens that the calls of a completion may add up to.

    Each call drafts ``length`` tokens. ``start`` tokens come without a call. Of the tokens that are left
    ``kept`` are not drafted, None for drafts beyond the limit; drafts of less than ``least`` are not made.
    Tokens that are accepted beyond the limit are counted or not.
    """
    reached: dict[int, set[tuple[int, int]]] = {start: {(0, 0)}}
    for place in range(tokens):
        left = tokens - place
        size = length if kept is None else min(length, max(left - kept, 0))
        size = size if size >= least else 0
        for accepted in range(size + 1):
            for counted in {accepted, min(accepted, left)}:
                after = reached.setdefault(min(place + accepted + 1, tokens), set())
                after |= {(drafted + size, before + counted) for drafted, before in reached.get(place, ())}
    return frozenset(reached.get(tokens, ()))


def ends(subject: ServerSubject) -> CheckResult:
    """Judge completions under stop strings of completions without: under a common one, and under two."""
    server, tokens = subject.server, effort.SERVER_LONGER * subject.plan.tokens
    prompts = list(server.prompts) * -(-SERVER_STOPS // len(server.prompts))
    free = server.complete([Ask(prompt, tokens) for prompt in prompts])
    full = [one for one in free if len(one.tokens) == tokens and server.ends.isdisjoint(one.tokens[-1:])]
    if 2 * len(full) > len(free) and not server.by_letters and all(one.finish == "stop" for one in full):
        wrong = f"{len(full)} completions of all {tokens} tokens that were asked for end for 'stop'"
        return failed(wrong, draws=len(free), how=How.SAMPLED, do="report why a completion ends")
    # Some place in most of them, so that no block is likely to begin or end there each time.
    held = Counter(
        piece for one in free for piece in {one.text[i : i + STOP] for i in range(2, len(one.text) - 1)}
    )
    if not held:
        return not_asked("completions are too short for stop strings")
    stop = max(held, key=lambda piece: (held[piece], piece))
    asks = [
        Ask(prompt, tokens, listed=server.listed * (number % 2), fields={"stop": [stop]})
        for number, prompt in enumerate(prompts)
    ]
    try:
        asks += _under_two(server, tokens)
        stopped = server.complete(asks)
    except RefusedError as error:
        return not_asked(f"the server refuses stop strings such as {stop!r}: {error}")
    for ask, answer in [*((Ask("", tokens), one) for one in free), *zip(asks, stopped, strict=True)]:
        if wrong := misplaced_end(server, ask, answer):
            return failed(wrong, draws=len(free) + len(stopped), how=How.SAMPLED, do=LOOK_AT_ENDS)
    reached = sum(len(answer.tokens) < tokens for answer in stopped)
    detail = f"{len(stopped)} completions under stop strings, {reached} of them cut short, end in one place"
    return passed(detail, draws=len(free) + len(stopped), how=How.SAMPLED)


def _under_two(server: Server, tokens: int) -> list[Ask]:
    """Return greedy requests under two stop strings that follow one another: the first must end it.

    It stands second in the list: servers that look through a block in that order miss it (vllm#49391). Every
    other time a letter lies between the two, since a text that ends with a stop string may be right.
    """
    greedy, found = [Ask(prompt, tokens, temperature=0) for prompt in server.prompts], list[Ask]()
    try:
        answers = server.complete(greedy)
    except RefusedError:  # some servers ask for a temperature above 0
        return found
    for ask, answer in zip(greedy, answers, strict=True):
        for start in range(1, len(answer.text) - 2 * STOP):
            second = start + STOP + start % 2
            stops = [answer.text[second : second + STOP], answer.text[start : start + STOP]]
            found.append(replace(ask, fields={"stop": stops}))
    return found[:: max(1, len(found) // SERVER_STOPS)][:SERVER_STOPS]


def misplaced_end(server: Server, ask: Ask, answer: Completion) -> str:
    """Say which part of an answer ends elsewhere than another, "" if none does.

    Ids and their number may include the token that ended it, and the tokens of the stop string.
    """
    count, stops = len(answer.tokens), _stops(ask)
    said = f" under the stop string{'s' * (len(stops) > 1)} {', '.join(map(repr, stops))}"
    what = "a completion" + said * bool(stops)
    last = next((stop for stop in stops if answer.text.endswith(stop)), "")
    if _holds(answer.text.removesuffix(last), stops):
        return f"{what} goes on behind {'one' if len(stops) > 1 else 'it'}: {answer.text!r}"
    if count > ask.tokens or (answer.finish == "length" and count < ask.tokens - 1):
        return f"{what} has {count} of {ask.tokens} tokens, and ends for {answer.finish!r}"
    if not server.by_letters and answer.counted is not None and abs(answer.counted - count) > 1:
        return f"{what} of {count} tokens is counted as {answer.counted}"
    return "" if server.by_letters else _misplaced_text(server, ask, answer, what)


def _misplaced_text(server: Server, ask: Ask, answer: Completion, what: str) -> str:
    """Compare the text with that of the ids, if the server turns ids into text."""
    text, stops = answer.text, _stops(ask)
    written = server.text(answer.tokens)
    if written is None or UNREADABLE in written or not written.startswith(text):
        return ""
    if _holds(server.text(answer.tokens[:-1]) or "", stops):
        return f"{what} has token ids behind it: {answer.tokens!r} after the text {text!r}"
    if not stops and not answer.ended and written != text:
        return f"{what} has the text {text!r}, its token ids have {written!r}"
    logs = len(answer.reported)
    is_short = ask.listed and logs < len(answer.tokens)
    if is_short and not (server.text(answer.tokens[:logs]) or "").startswith(text):
        return f"{what} has {logs} log-probabilities, which end before its text"
    return ""


def _stops(ask: Ask) -> Sequence[str]:
    found: Sequence[str] = ask.fields.get("stop", ())
    return found


def _holds(text: str, stops: Sequence[str]) -> bool:
    return any(stop in text for stop in stops)
