"""The check `streams`: same seed same result; other seeds, and requests without a seed, are independent."""

from spec_oracle.adapters.servers.apis import Ask
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.server.near_texts import PAIRS, Text, first_prompt, judged_pairs, volleys
from spec_oracle.audit.server.subject import ServerSubject

REPEATED_BY_SERVERS = 24


SERVER_TIME = 0.1
"""Share of a server's budget."""


# WAY @STREAMS.way(ServerSubject, of_a_true_law=True)
def streams(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge whether seeded requests repeat, alone on the server, and whether all others are independent."""
    served, rng = subject.served, checks_own_rng(context.seed)
    width, seconds = served.server.client.limits.concurrency, SERVER_TIME * context.budget / 2

    def repeats(rate: float) -> CheckResult:
        del rate
        seeds = [int(seed) for seed in rng.integers(2**31, size=REPEATED_BY_SERVERS)]
        runs: list[dict[int, Text]] = []
        for order in (seeds, seeds[::-1]):
            texts = [served.server.complete([first_prompt(served, seed)])[0].tokens for seed in order]
            runs.append(dict(zip(order, texts, strict=True)))
        moved = sum(runs[0][seed] != runs[1][seed] for seed in seeds)
        if moved:
            return failed(f"{moved} of {len(seeds)} requests have another text on the same seed")
        return passed(f"{len(seeds)} requests repeat on the same seed", draws=2 * len(seeds))

    def neighbours(rate: float) -> CheckResult:
        def asks() -> list[Ask]:
            seeds = rng.integers(2**31 - 1, size=width)
            return [first_prompt(served, int(seed) + shift) for seed in seeds for shift in (0, 1)]

        found = volleys(served, asks, -(-PAIRS // width), seconds)
        near = [pair for texts in found for pair in zip(texts[::2], texts[1::2], strict=True)]
        return judged_pairs("texts of seeds s and s + 1", near, served, rate)

    def in_turn(rate: float) -> CheckResult:
        found = volleys(served, lambda: [first_prompt(served)] * width, -(-2 * PAIRS // width), seconds)
        near = [
            pair
            for one, two in zip(found[::2], found[1::2], strict=False)
            for pair in zip(one, two, strict=True)
        ]
        return judged_pairs("texts of requests one after another", near, served, rate)

    return first_failure(alpha, repeats, neighbours, in_turn)
