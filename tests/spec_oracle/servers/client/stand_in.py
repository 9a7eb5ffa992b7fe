"""A stand-in server: a small model, a drafter, the token rule, two APIs, and at most one planted defect.

`StandIn.respond` is the whole of it. `serving` of `lab.benchmarks.loopback` puts it behind a loopback port,
`InProcess` in the place of a client, without sockets, `answering` does so for the client of a command.
"""

import json
import math
import random
import time
from bisect import bisect
from collections import Counter
from contextlib import contextmanager
from itertools import accumulate
from unittest import mock

from lab.benchmarks.loopback import DropError
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.client.client import Client, Limits, Reply
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import RefusedError, ServerError

Numbers = random.Random.__base__
"""The same numbers as those of `random.Random`, which seeds itself twice and is made for each request."""

END = 0
"""The token that ends a text."""

DRAFT_LENGTH = 3

PENALTIES = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Those that do nothing, as the audit asks for."""
FIELDS = ("temperature", "top_k", "top_p", "min_p", "grammar")


def penalties_of(body):
    """Return the penalties of a request that change something."""
    return [body[name] for name, neutral in PENALTIES.items() if body.get(name, neutral) != neutral]


class Law(list):
    """The distribution of a token, [V], and its sums from the first token on."""

    def __init__(self, masses):
        super().__init__(masses)
        self.reached = [*accumulate(self)]


def sampled(law, uniform, vocab):
    """Return the token that a uniform random number takes of a law or of weights, [V]."""
    reached = law.reached if isinstance(law, Law) else [*accumulate(law)]
    return bisect(reached, uniform * reached[-1], hi=vocab - 1)


class StandIn:
    """``defect`` is one of the names below, ``size`` how much of it.

    ``shape``: "llama.cpp" shows probabilities as sampled; "openai" raw ones, as ids in text like vLLM;
    "uncounted" is silent on drafts; "silent" on everything but text. ``digits`` rounds log-probabilities.
    ``serves`` "draft" is the draft model itself, behind an address of its own. ``refuses`` are fields that it
    answers with 400; of others that it does not know, such as ``typical_p``, it takes no notice.
    ``scores``: how it scores prompts, "prompt_logprobs" or "echo".
    A defect "skips:FIELD" verifies drafts without that field. A grammar allows all tokens but the last.
    ``takes_lists``: of prompts.
    """

    def __init__(
        self,
        defect="",
        *,
        size=0.0,
        shape="llama.cpp",
        vocab=8,
        entropy=0,
        digits=None,
        draft=True,
        serves="target",
        refuses=(),
        scores="",
        takes_lists=True,
    ):
        self.takes_lists = takes_lists
        self.scores = scores
        self.defect, self.size, self.shape, self.vocab = defect, size, shape, vocab
        self.digits, self.draft, self.serves, self.refuses = digits, draft, serves, refuses
        self.random = random.Random(entropy)  # of requests without a seed
        self.faults = random.Random(entropy + 1)
        self.rows, self.laws = {}, {}
        self.by_settings = {}  # the same laws, by what else they depend on, for long texts
        self.sent = {}  # texts that were sent to the end, by request
        self.calls = Counter()
        self.crowd = 1  # requests that are served at once
        self.answers = {}  # by request, for "caches-answers"
        self.last = (0.0, 0)

    def weights(self, context, model):
        """Return the weights after the last two tokens of a context, for "target" or "draft"."""
        key = (*context[-2:], model)
        if key not in self.rows:
            rng = random.Random(repr(key))
            row = [rng.gammavariate(0.8, 1) + 0.02 for _ in range(self.vocab)]
            if model == "draft":
                row = [0.5 * w + r for w, r in zip(self.weights(context, "target"), row, strict=True)]
            row[END] = 0.06 * sum(row)
            self.rows[key] = row
        return self.rows[key]

    def law(self, context, body, model=""):
        """Return the law by which a token is drawn, [V]."""
        model = model or self.serves
        quick, known = (model, *context[-2:]), body.get("known")
        if known is not None and quick in known:
            return known[quick]
        biases = body.get("logit_bias")
        key = (*context[-2:], model, biases and repr(biases), *map(body.get, FIELDS))
        if penalties := penalties_of(body):
            key += (*penalties, frozenset(Counter(context).items()))
        if key not in self.laws:
            self.laws[key] = Law(self.computed_law(context, body, model))
        if known is not None:
            known[quick] = self.laws[key]
        return self.laws[key]

    def known(self, body):
        """Return the laws by model and last two tokens, None where they depend on more."""
        if penalties_of(body):
            return None
        return self.by_settings.setdefault((repr(body.get("logit_bias")), *map(body.get, FIELDS)), {})

    def computed_law(self, context, body, model):
        heat = body.get("temperature", 1.0)
        logits = self.logits(context, body, model)
        hottest = max(logits)
        row = [math.exp((one - hottest) / heat) if heat else float(one == hottest) for one in logits]
        row = [w if w / sum(row) >= body.get("min_p", 0.0) * max(row) / sum(row) else 0.0 for w in row]
        kept = sorted(range(self.vocab), key=lambda t: -row[t])
        if body.get("top_k", 0) > 0 and self.defect != "ignores-top-k":
            kept = kept[: body["top_k"]]
        if body.get("top_p", 1.0) < 1:
            reached = accumulate(row[t] / sum(row[t] for t in kept) for t in kept)
            kept = kept[: 1 + sum(mass < body["top_p"] for mass in reached)]
        total = sum(row[t] for t in kept)
        return [row[t] / total if t in set(kept) else 0.0 for t in range(self.vocab)]

    def logits(self, context, body, model):
        """Return the logarithms of the weights, [V], with biases, penalties and a grammar's rules."""
        found = [math.log(w) for w in self.weights(context, model)]
        for token, bias in dict(body.get("logit_bias") or {}).items():
            found[int(token)] += bias
        for token, count in Counter(context).items():
            found[token] -= count * body.get("frequency_penalty", 0.0) + body.get("presence_penalty", 0.0)
            found[token] *= body.get("repetition_penalty", 1.0) ** (1 if found[token] < 0 else -1)
        if "grammar" in body:
            found[-1] = -math.inf
        return found

    def shown(self, context, body):
        """Return the log-probabilities that are shown of the next token, by token, the largest first."""
        if self.shape == "llama.cpp":
            hot = (
                {"temperature": (1 + self.size) * body["temperature"]} if self.defect == "wrong-rows" else {}
            )
            law, count = self.law(context, {**body, **hot}), body["n_probs"]
        else:
            heat = 1 + self.size if self.defect == "wrong-rows" else 1.0
            law, count = self.law(context, {"temperature": heat}), body["logprobs"]
        logs = {t: math.log(p) for t, p in enumerate(law) if p}
        top = sorted(logs, key=lambda t: -logs[t])[:count]
        noise = self.size * self.faults.uniform(-1, 1) if self.defect == "noisy-rows" else 0.0
        return {t: logs[t] + noise if self.digits is None else round(logs[t], self.digits) for t in top}

    def scored(self, prompt, listed):
        """Return what is listed at each token of a prompt, and the token itself; None at the first."""
        rows = [self.shown(prompt[:place], {"logprobs": listed}) for place in range(1, len(prompt))]
        whole = [self.law(prompt[:place], {"temperature": 1.0}) for place in range(1, len(prompt))]
        own = [{token: math.log(law[token])} for token, law in zip(prompt[1:], whole, strict=True)]
        return [None, *({**one, **row} for one, row in zip(own, rows, strict=True))]

    def reported(self, prompt, tokens, body):
        """Return (token, log-probability, those listed) of the tokens of a completion."""
        found = []
        behind = [1, 2] if self.defect == "logprobs-behind" and tokens[-1] == END else []
        for place, token in enumerate([*tokens, *behind]):
            context = (*prompt, *tokens, *behind)[: len(prompt) + place]
            shown = self.shown(context, body)
            if place and self.defect == "logprobs-missing":
                break
            if place and self.defect == "logprobs-constant":
                shown = {token: 0.0}
            elif place and self.defect == "logprobs-mode":  # the other one of the two
                law = self.law(context, body if self.shape == "openai" else {})
                shown = {t: math.log(p) for t, p in enumerate(law) if p}
            elif place and self.defect == "logprobs-shifted":
                shown = self.shown(context[:-1], body)
            elif self.defect == "logprobs-residual" and place in self.residuals:
                whole = sum(self.residuals[place])
                shown = {t: math.log(p / whole) for t, p in enumerate(self.residuals[place]) if p}
            elif place and self.defect == "logprobs-rounded":
                shown = {t: round(log, 1) for t, log in shown.items()}
            found.append((token, shown.get(token, -20.0), shown))
        return found

    def text(self, prompt, count, body):
        """Return (tokens, drafted, accepted)."""
        rng = self.stream(body)
        body = {**body, "known": self.known(body)}
        tokens, drafted, accepted = [], 0, 0
        context = [*prompt]  # and the tokens
        self.residuals = {}  # of corrections, by the number of the token
        if self.defect == "stops-late":
            count += 1
        if count == 1:  # as most requests are
            return [sampled(self.law(context, body), rng.random(), self.vocab)], 0, 0
        ends_late, stops = self.defect == "late-stop-token", body.get("stop")
        misses_in_block = self.defect in {"misses-stops", "stops-text-only"}

        def token(law):
            return sampled(law, rng.random(), self.vocab)

        def emit(one):
            tokens.append(one)
            context.append(one)

        def over(*, in_block=False):
            if len(tokens) >= count:
                return True
            if END in tokens and not (ends_late and len(tokens) > 2):
                return True
            return bool(stops) and not (in_block and misses_in_block) and self.stopped(tokens, body)

        emit(token(self.law(context, body)))
        start = rng.getstate() if self.defect == "repeats-numbers" else None
        corrected = False
        while not over():
            # A call: drafts, a coin each, and one more token.
            accepts = self.accepts(prompt, tokens, body)
            accepts_first = self.defect == "accepts-after-rejection" and corrected
            corrected = False
            if start and len(tokens) > 4:
                rng.setstate(start)
            proposals, q = [], []
            for _ in range(min(DRAFT_LENGTH, count - len(tokens) - 1) if self.draft else 0):
                q.append(self.law(context, body, "draft"))
                proposals.append(token(q[-1]))
                context.append(proposals[-1])
            drafted += len(proposals)
            del context[len(prompt) + len(tokens) :]
            for place, proposal in enumerate(proposals):
                p = self.target(context, len(tokens), body)
                accepted_anyway = accepts or (accepts_first and not place)
                if accepted_anyway or rng.random() * q[place][proposal] < p[proposal]:
                    emit(proposal)
                    accepted += 1
                    if over(in_block=True):
                        break
                    continue
                residual = [max(a - b, 0.0) for a, b in zip(p, q[place], strict=True)]
                if self.defect == "corrects-from-p":
                    residual = p
                corrected = True
                self.residuals[len(tokens)] = residual
                emit(token(residual))
                break
            else:
                emit(token(self.target(context, len(tokens), body)))
        return tokens, drafted, accepted

    def accepts(self, prompt, tokens, body):
        """Whether a planted defect accepts all drafts of a call."""
        if not self.defect.startswith("always-accept"):
            return False
        return {
            "always-accept": True,
            "always-accept-late": len(tokens) >= self.size,
            "always-accept-crowded": self.crowd >= 4,
            "always-accept-seeded": body.get("seed") is not None,
            "always-accept-long": len(prompt) >= 100,
            "always-accept-greedy": body.get("temperature") == 0,
        }[self.defect]

    def stopped(self, tokens, body):
        """Whether the text holds a stop string; where these are missed, whether it ends with one."""
        if not (stops := body.get("stop")):
            return False
        text = self.written(tokens)
        if self.defect == "misses-stops":
            return text.endswith(tuple(stops))
        return any(stop in text for stop in stops)

    def target(self, context, place, body):
        """Return the row of verification: of a smaller mode where a defect is planted."""
        if not self.defect:
            return self.law(context, body)
        skipped = self.defect.removeprefix("skips:")
        if skipped in body:
            body = {name: value for name, value in body.items() if name not in (skipped, "known")}
        law = self.law(context, body)
        if (self.defect, place) == ("biased-second", 1) or (self.defect == "biased-late" and place > 5):
            law = list(law)
            high, low = max(range(self.vocab), key=law.__getitem__), sorted(law)[-2]
            law[law.index(low)] += min(self.size, law[high])
            law[high] -= min(self.size, law[high])
        return law

    def texts(self, prompt, length, body, tokens=(), mass=1.0):
        """Yield all texts of ``length`` tokens with their probabilities, planted bias included."""
        if len(tokens) == length or END in tokens:
            yield tokens, mass
            return
        for token, p in enumerate(self.target((*prompt, *tokens), len(tokens), body)):
            yield from self.texts(prompt, length, body, (*tokens, token), mass * p)

    def stream(self, body):
        """Return the random numbers of a request."""
        seed = body.get("seed")
        if seed is None:
            if self.defect == "same-seed":
                return Numbers(1)
            if self.defect == "shared-clock":  # requests within a moment share their randomness
                moment, _ = self.last
                if time.monotonic() - moment > self.size:
                    self.last = time.monotonic(), self.random.getrandbits(60)
                return Numbers(self.last[1])
            return Numbers(self.random.getrandbits(60))
        if self.defect == "ignores-seeds":
            return Numbers(self.random.getrandbits(60))
        return Numbers(seed // 2 if self.defect == "coarse-seeds" else seed)

    def respond(self, path, body, name=""):  # noqa: PLR0911, PLR0912
        """Return (status, data) for a request; raises `DropError`."""
        self.calls[path] += 1
        if path == "/props" and self.shape == "llama.cpp":
            return 200, {"default_generation_settings": {}}
        if path == "/v1/models" and self.shape != "llama.cpp":
            return 200, {"data": [{"id": "small"}]}
        if path == "/tokenize" and self.shape != "silent":
            text = body.get("content", body.get("prompt"))
            return 200, {"tokens": [(ord(c) - 97) % self.vocab for c in text]}
        own = "/completion" if self.shape == "llama.cpp" else "/v1/completions"
        if path not in {own, "/detokenize"}:
            return 404, {"error": "not here"}
        if any(name in body for name in self.refuses):
            return 400, {"error": "a field is not known"}
        if path == "/detokenize":
            return 200, {"content": self.written(body["tokens"])}
        if self.defect == "caches-answers" and (cached := self.answers.get(repr(body))):
            return 200, cached
        prompt = body["prompt"]
        if prompt and isinstance(prompt[0], list):
            if not self.takes_lists:
                return 500, {"error": "a prompt is text or tokens"}
            return 200, [self.respond(path, {**body, "prompt": one}, name)[1] for one in prompt]
        if isinstance(prompt, str):
            prompt = [(ord(c) - 97) % self.vocab for c in prompt]
        if self.defect == "errors" and self.faults.random() < self.size:
            return 500, {"error": "by chance"}
        tokens, drafted, accepted = self.text(
            tuple(prompt), body.get("n_predict", body.get("max_tokens")), body
        )
        if self.defect == "errors-by-text" and len(tokens) > 1 and tokens[1] == 2:
            return 500, {"error": "for what it says"}
        if self.defect == "slow" and self.faults.random() < self.size:
            time.sleep(1.0)
        answer = self.answer(tuple(prompt), tokens, drafted, accepted, body)
        if self.defect == "caches-answers" and len(tokens) > 1:
            self.answers[repr(body)] = answer
        if self.defect == "closes" and self.faults.random() < self.size:
            raise DropError
        self.sent.setdefault(name, []).append(tuple(tokens))
        return 200, answer

    def written(self, tokens):
        """Return the tokens as text, a letter each."""
        return "".join(chr(97 + token) for token in tokens)

    def answer(self, prompt, tokens, drafted, accepted, body):
        """Return the data of an answer in the shape of this server."""
        ended, text = tokens[-1] == END, self.written(tokens)
        stop = next((one for one in body.get("stop", ()) if self.stopped(tokens, body) and one in text), None)
        text = text if stop is None else text[: text.index(stop)]
        if self.shape == "llama.cpp":
            more = 9 if self.defect == "impossible-counts" else 0
            counts = {"draft_n": drafted, "draft_n_accepted": accepted + more} if drafted else {}
            data = {
                "tokens": tokens,
                "content": text,
                "tokens_predicted": len(tokens),
                "stop_type": "word" if stop else "eos" if ended else "limit",
                "timings": counts,
            }
            if body.get("n_probs"):
                data["completion_probabilities"] = [
                    {
                        "id": token,
                        "prob": math.exp(log),
                        "top_probs": [{"id": t, "prob": math.exp(of)} for t, of in shown.items()],
                    }
                    for token, log, shown in self.reported(prompt, tokens, body)
                ]
            return {**data, "tokens_evaluated": len(prompt)}
        choice = {"text": text, "finish_reason": "stop" if ended or stop else "length"}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)}
        if self.shape != "silent":
            choice["token_ids"] = tokens
        if self.shape == "openai":
            usage["completion_tokens_details"] = {
                "accepted_prediction_tokens": accepted,
                "rejected_prediction_tokens": drafted - accepted,
            }
        if body.get("logprobs") and self.shape != "silent":
            ids, logs, tops = zip(*self.reported(prompt, tokens, body), strict=True)
            choice["logprobs"] = {
                "tokens": [f"token_id:{t}" for t in ids],
                "token_logprobs": logs,
                "top_logprobs": [{f"token_id:{t}": log for t, log in top.items()} for top in tops],
            }
        if self.scores == "prompt_logprobs" in body:
            rows = self.scored(prompt, body["prompt_logprobs"])
            choice["prompt_logprobs"] = [
                row and {str(t): {"logprob": of} for t, of in row.items()} for row in rows
            ]
        if self.scores == "echo" in body:
            rows, shown = self.scored(prompt, body["logprobs"]), choice["logprobs"]
            shown["tokens"] = [f"token_id:{t}" for t in prompt] + shown["tokens"]
            tops = [row and {f"token_id:{t}": of for t, of in row.items()} for row in rows]
            shown["top_logprobs"] = tops + shown["top_logprobs"]
        return {"choices": [choice], "usage": usage}


class InProcess:
    """Stands for a `Client`: the same requests, answered here; failed ones are not sent again."""

    def __init__(self, stand_in, concurrency=4):
        self.stand_in, self.limits, self.url = stand_in, Limits(concurrency=concurrency), "http://here"
        self.key_variable, self.requests = "", 0
        self.end, self.pace = math.inf, math.inf

    def ask(self, requests):
        return list(self.answers(requests))

    def answers(self, requests):
        for request in requests:
            self.stand_in.crowd = min(len(requests), self.limits.concurrency)
            yield self._answer(request)

    def _answer(self, request):
        self.requests += 1
        status, data = self.stand_in.respond(request.path, request.body, f"spec-oracle-{self.requests}")
        if status == 500:
            raise (RefusedError if request.is_probe else ServerError)("HTTP 500")
        if status != 200:
            raise RefusedError(f"HTTP {status}")
        return Reply(json.dumps(data) if request.body is None else data)


def server_of(stand_in, sampling=None, *, top_k=0, prompts=("bc", "def")):
    """Return the server that answers as the stand-in does; ``sampling`` None is a temperature of 1."""
    return connect(InProcess(stand_in), sampling or Sampling(top_k=top_k), prompts=prompts)


@contextmanager
def answering(stand_in):
    """Yield an address that commands can ask; the answers come from this process."""
    here = InProcess(stand_in)
    with mock.patch.object(Client, "answers", lambda _, requests: here.answers(requests)):
        yield here.url
