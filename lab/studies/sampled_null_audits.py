"""Audit right subjects that only samples can decide: `python -m lab.studies.sampled_null_audits`.

Five styles in turn, under another seed each: a sampler with a generator of its own, a sampler whose uniforms
another thread draws, an engine that hashes the system's entropy, a server, recorded completions. None may be
lossy. Prints every verdict that is, and at the end the counts, and an upper bound of the rate of lossy ones.
"""

import argparse
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import numpy as np

from lab.benchmarks.loopback import serving
from lab.specimens.foreign.rows import Array
from lab.specimens.foreign.uniforms import token_by_uniforms
from lab.specimens.table_engine import DRAFT, TARGET, TableEngine, from_random, from_system
from lab.specimens.unseen import unseen
from spec_oracle.audit import AuditOptions, SubjectReport, SubjectVerdict, audit_subject
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subjects import of_engines
from spec_oracle.contracts import SamplerCode
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from spec_oracle.servers.client.client import Client, Limits
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.recorded.checks import Transcripts
from spec_oracle.servers.recorded.transcripts import read_all
from spec_oracle.statistics import DEFAULT_ALPHA, clopper_pearson

EVERY: Final = 25
"""After so many audits the counts so far are printed."""

BOUND: Final = 0.05
"""Chance that the rate of lossy verdicts exceeds its printed upper bound."""

LEFT_OUT: Final = dict.fromkeys(("shapes", "streams", "batch"), "")
"""Checks of servers that take more requests than are sent here."""

OF_A_SAMPLER: Final = ("length", "calls", "streams", "batch", "scale")


def in_another_thread(x: Array, q: Array, p: Array, generator: Any) -> tuple[Array, Array]:
    """Verify by the token rule, with uniforms that a thread of a pool draws."""
    with ThreadPoolExecutor(1) as pool:
        uniforms = pool.submit(generator.random, (len(x), x.shape[1] + 1)).result()
    return token_by_uniforms(x, q, p, uniforms, dtype=np.float64)


def _sampler(function: Any, options: AuditOptions, alpha: float) -> SubjectReport:
    options = AuditOptions(seed=options.seed, checks=OF_A_SAMPLER, budget=options.budget, shrink=False)
    return audit_subject(SamplerSubject("sampler", SamplerCode(function)), options, alpha)


def _engine(options: AuditOptions, alpha: float) -> SubjectReport:
    engine = TableEngine(source=from_system)
    return audit_subject(of_engines("engine", {"": engine}), options, alpha)


class Server:
    """Serves completions of a `TableEngine`, with log-probabilities and counts, as vLLM does."""

    def __init__(self, seed: int) -> None:
        self.entropy = random.Random(seed)  # noqa: S311  # no secret

    def respond(self, path: str, body: Any, name: str = "") -> tuple[int, Any]:
        """Answer a request for the models, or for a completion."""
        del name
        if path == "/v1/models":
            return 200, {"data": [{"id": "toy"}]}
        if path != "/v1/completions" or not isinstance(body["prompt"], list):
            return 404, {"error": "not here"}
        heat = body.get("temperature", 1.0)
        target, draft = (partial(self.heated, rows, heat) for rows in (TARGET, DRAFT))
        engine = TableEngine(target, draft, source=self.source)
        tokens = engine.generate(body["prompt"], body.get("max_tokens", 16), body.get("seed"))
        rows = [target([*body["prompt"], *tokens[:place]]) for place in range(len(tokens))]
        shown = [{f"token_id:{token}": math.log(mass) for token, mass in enumerate(row)} for row in rows]
        names = [f"token_id:{token}" for token in tokens]
        logprobs = [row[token] for row, token in zip(shown, names, strict=True)]
        listed = {"tokens": names, "token_logprobs": logprobs, "top_logprobs": shown}
        choice = {"text": "".join(map(str, tokens)), "token_ids": tokens, "finish_reason": "length"}
        counts = {"accepted_prediction_tokens": engine.accepted}
        counts["rejected_prediction_tokens"] = engine.drafted - engine.accepted
        usage = {"completion_tokens": len(tokens), "completion_tokens_details": counts}
        return 200, {"choices": [{**choice, "logprobs": listed}], "usage": usage}

    def source(self, seed: int | None) -> Callable[[], float]:
        """Begin a request."""
        return random.Random(self.entropy.getrandbits(60) if seed is None else seed).random  # noqa: S311

    @staticmethod
    def heated(rows: Any, heat: float, context: list[int]) -> list[float]:
        """Return a row at a temperature; the likeliest token alone at 0."""
        row = rows(context)
        weights = [mass ** (1 / heat) if heat else float(mass == max(row)) + 1e-300 for mass in row]
        return [weight / sum(weights) for weight in weights]


def _server(options: AuditOptions, alpha: float) -> SubjectReport:
    end = time.monotonic() + 20 * options.budget
    with serving(Server(options.seed)) as url, Client(url, Limits(), "", end) as client:
        server = connect(client, Sampling(), prompts=["[0, 1]"])
        subject = ServerSubject(url, server, ServerPlan(2, 500, 0.3), seed=options.seed)
        chosen = AuditOptions(seed=options.seed, alpha=alpha, budget=20 * options.budget, skip=LEFT_OUT)
        (report,) = audit_server(subject, chosen).subjects
    return report


def _recorded(options: AuditOptions, alpha: float) -> SubjectReport:
    engine, lines = TableEngine(source=from_random), list[str]()
    for number in range(60):
        prompt = [0, 1]
        tokens = engine.generate(prompt, 24, options.seed * 60 + number)
        line: dict[str, object] = {"prompt": prompt, "tokens": tokens}
        for name, table in (("rows", TARGET), ("draft_rows", DRAFT)):
            rows = (table([*prompt, *tokens[:place]]) for place in range(len(tokens)))
            line[name] = [{token: math.log(mass) for token, mass in enumerate(row)} for row in rows]
        lines.append(json.dumps(line))
    found = Transcripts(some := read_all(lines), seed=options.seed)
    for one in some:
        found.add(one)
    return found.report("recorded", alpha, 0.3)


STYLES: Final[dict[str, Callable[[AuditOptions, float], SubjectReport]]] = {
    "own generator": lambda options, alpha: _sampler(unseen(lambda *_: None), options, alpha),
    "another thread": partial(_sampler, in_another_thread),
    "engine that hashes": _engine,
    "server": _server,
    "recorded completions": _recorded,
}


def main() -> None:
    """Run so many audits, and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first audit; the next has the next one")
    parser.add_argument("--alpha", type=float, default=DEFAULT_ALPHA, help="false-alarm rate of an audit")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of a check that samples")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no audit after that")
    given = parser.parse_args()
    end, verdicts, names = time.monotonic() + given.seconds, Counter[str](), [*STYLES]

    def counted() -> None:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(verdicts.items()))
        print(f"{verdicts.total()} audits from seed {given.seed}: {counts}", flush=True)  # noqa: T201

    for number in range(given.count):
        if time.monotonic() > end:
            break
        style = names[number % len(names)]
        options = AuditOptions(seed=given.seed + number, budget=given.budget)
        report = STYLES[style](options, given.alpha)
        verdicts[f"{style} {report.verdict.value}"] += 1
        if report.verdict is SubjectVerdict.LOSSY:
            wrong = "; ".join(check.detail for check in report.checks if check.status.value == "failed")
            print(f"seed {options.seed}: {style} is lossy: {wrong}", flush=True)  # noqa: T201
        if verdicts.total() % EVERY == 0:
            counted()
    counted()
    lossy = sum(count for what, count in verdicts.items() if what.endswith(" lossy"))
    _, upper = clopper_pearson(np.array([lossy, verdicts.total() - lossy]), BOUND)
    bound = f"at most {upper[0]:.2g} of right subjects (confidence {1 - BOUND:.0%})"
    print(f"{lossy} of {verdicts.total()} lossy: {bound}")  # noqa: T201


if __name__ == "__main__":
    main()
