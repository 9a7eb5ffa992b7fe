"""A proxy that speculates with the next-token distributions of two servers of llama.cpp, target and draft.

``python -m lab.benchmarks.speculating_proxy accepts-all`` audits one of `RULES` on SmolLM2, for three minutes
at most. Each distribution is asked for once, by a one-token request, and kept: what the proxy reports is what
it verifies with, so that planted defects are all that is wrong with it.
"""

import argparse
import json
import random
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.benchmarks import loopback
from lab.benchmarks.llama_cpp import OTHERS, serving, smollm2_models, weights_of
from spec_oracle.audit import AuditOptions
from spec_oracle.contracts.completion import Sampling
from spec_oracle.report.audit_text import audit_to_text
from spec_oracle.servers.checks.distributions import Weights
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from spec_oracle.servers.client.client import Client, Limits, Request
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import ServerError

RIGHT, ACCEPTS_ALL, CORRECTS_FROM_P = RULES = "right", "accepts-all", "corrects-from-p"

DRAFTED, LISTED, WIDTH, SECONDS = 3, 20, 4, 180.0
FILTERS = ("temperature", "top_k", "top_p", "min_p")
END = 0
"""SmolLM2's token at the end of a text."""


class Proxy:
    """Speculates by ``rule`` in front of two servers; top-k is to be less than `LISTED`."""

    def __init__(self, target, draft, rule):
        self.target, self.draft, self.rule = target, draft, rule
        self.rows = {}

    def row(self, client, text, body):
        """Return the probabilities after a text that are left by the filters, by token."""
        fields = {name: body[name] for name in FILTERS if name in body}
        key = client is self.draft, *text, *fields.items()
        if key not in self.rows:
            more = {"n_predict": 1, "n_probs": LISTED, "post_sampling_probs": True}
            request = Request("/completion", {"prompt": list(text), **fields, **more})
            (answer,) = client.ask([request])
            listed = answer.data["completion_probabilities"][0]["top_probs"]
            # Of two requests at once for the same, the first one counts.
            self.rows.setdefault(key, {one["id"]: one["prob"] for one in listed if one["prob"]})
        return self.rows[key]

    def completion(self, body):
        """Return the answer to a request: a first token, then calls of `DRAFTED` drafts and one more."""
        rng = random.Random(body.get("seed"))
        prompt, count, drafted, accepted = body["prompt"], body["n_predict"], 0, 0
        if isinstance(prompt, str):
            request = Request("/tokenize", {"content": prompt, "add_special": True})
            prompt = self.target.ask([request])[0].data["tokens"]
        tokens = [_sampled(rng, self.row(self.target, prompt, body))]
        while len(tokens) < count and END not in tokens:
            for _ in range(min(DRAFTED, count - len(tokens) - 1)):
                q = self.row(self.draft, [*prompt, *tokens], body)
                token = _sampled(rng, q)
                drafted += 1
                if self.rule != ACCEPTS_ALL:
                    p = self.row(self.target, [*prompt, *tokens], body)
                    if rng.random() * q[token] >= p.get(token, 0.0):
                        residual = {one: max(mass - q.get(one, 0.0), 0.0) for one, mass in p.items()}
                        tokens.append(_sampled(rng, p if self.rule == CORRECTS_FROM_P else residual))
                        break
                accepted += 1
                tokens.append(token)
                if token == END:
                    break
            else:
                tokens.append(_sampled(rng, self.row(self.target, [*prompt, *tokens], body)))
        answer = {"tokens": tokens, "content": "", "tokens_predicted": len(tokens)}
        answer |= {"timings": {"draft_n": drafted, "draft_n_accepted": accepted}}
        answer["stop_type"] = "eos" if tokens[-1] == END else "limit"
        if body.get("n_probs"):
            places = (self.row(self.target, [*prompt, *tokens[:end]], body) for end in range(len(tokens)))
            answer["completion_probabilities"] = [
                {"id": token, "prob": row.get(token, 0.0), "top_probs": _listed(row)}
                for token, row in zip(tokens, places, strict=True)
            ]
        return answer

    def respond(self, path, body, name=""):
        """Return (status, data) for a request; what is no completion is the target's."""
        del name
        if path == "/metrics":
            return 404, {"error": "the target's counters are not this server's"}
        try:
            data = self.completion(body) if path == "/completion" else self._of_target(path, body)
        except ServerError as error:
            return 400, {"error": str(error)}
        return 200, data

    def _of_target(self, path, body):
        data = self.target.ask([Request(path, body)])[0].data
        return json.loads(data) if body is None else data


def _sampled(rng, masses):
    return rng.choices(list(masses), list(masses.values()))[0]


def _listed(row):
    return [{"id": token, "prob": mass} for token, mass in row.items()]


@contextmanager
def proxying(target, draft, rule):
    """Yield the address of a proxy in front of the addresses of two servers."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(url, Limits(concurrency=WIDTH))) for url in (target, draft)]
        yield stack.enter_context(loopback.serving(Proxy(*clients, rule)))


@contextmanager
def smollm2_servers():
    """Yield the addresses of SmolLM2 and of a coarser draft, and the draft's rows by its weights."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        target, draft = smollm2_models(Path(folder))
        urls = [stack.enter_context(serving("no speculation", file, draft)) for file in (target, draft)]
        yield (*urls, weights_of(draft))


def audited(rule, target, draft, weights, *, seconds=SECONDS, detect=0.2):
    """Return the report of an audit of long completions by a proxy; ``weights`` are rows of the draft."""
    with proxying(target, draft, rule) as url, Client(url, Limits(concurrency=WIDTH)) as client:
        server = connect(client, Sampling(top_k=3))
        drafts = Weights(weights, server.prompts)
        plan = ServerPlan(detect=detect)
        subject = ServerSubject(rule, server, plan, draft=drafts)
        skip = dict.fromkeys(OTHERS, "")
        return audit_server(subject, AuditOptions(budget=seconds, skip=skip))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rule", choices=RULES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--detect", type=float, default=0.2)
    options = parser.parse_args()
    with smollm2_servers() as (target, draft, weights):
        start = time.monotonic()
        report = audited(options.rule, target, draft, weights, seconds=options.seconds, detect=options.detect)
        print(audit_to_text(report, verbose=True), f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
