"""Runs of the decoding loop that record, call by call, what judging needs: lengths, times, memory."""

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pytest
import torch

import verifiers
from gpu_tests.pair import Pair
from spec_oracle.exact.call import call_verifier
from spec_oracle.language_models import CachedModel, Truncation
from spec_oracle.language_models.decoding import RunningBatch, decode, without_unused_tokens
from verifiers import Drafts, StatefulVerifier, torch_decisions, traits_of

RULES = [name for name in verifiers.names() if name != "block_transport"]
"""Rules that the decoding loop can run."""

ONE_OF_EACH_KIND = (
    *("token", "block", "recursive_rejection_distinct"),
    *("top_draft", "traversal", "greedy_multipath_carry"),
)

OF_DAY = ("token", "recursive_rejection_distinct", "greedy_multipath_carry")
"""A rule for paths, one for trees, and one that carries over: on a GPU all rules are run."""


def by_day(names: Sequence[str]) -> list[Any]:
    """Return all rules as test cases, of which only those of the day run by day."""
    return [pytest.param(name, marks=() if name in OF_DAY else pytest.mark.nightly) for name in names]


@dataclass
class Record:
    """Accepted lengths of all requests and calls, flat, and seconds of each call by step.

    ``accepted`` as run; ``expected`` by a second verdict of the rule named ``reference`` on the same drafts
    with other random numbers, whose mean given the drafts is the expectation; ``optimum`` so by `block`,
    which accepts the most that a rule for one path can; empty for others, and for `block` itself.
    """

    reference: Any
    generator: Any
    bounded: bool
    accepted: list[Any] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)
    optimum: list[Any] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    calls: int = 0

    @contextmanager
    def timed(self, step: str, device: Any) -> Any:
        synchronise(device)
        started = time.perf_counter()
        yield
        synchronise(device)
        self.seconds[step].append(time.perf_counter() - started)

    def median_ms(self, *steps: str) -> float:
        """Return the milliseconds of these steps of a call: medians, since the first calls load kernels."""
        return 1e3 * sum(map(median, (self.seconds[step] for step in steps)))


def synchronise(device: Any) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


@dataclass
class ObservedBatch(RunningBatch):
    """A running batch that writes its calls into ``record``."""

    record: Any = None

    def draft_paths(self, batch):
        with self.record.timed("drafts", self.target.unread.device):
            return super().draft_paths(batch)

    def verify(self, drafts):
        record, device, state = self.record, drafts.tokens.device, self.state
        with record.timed("verification", device):
            verdict = super().verify(drafts)
        record.calls += 1
        small, _ = without_unused_tokens(drafts)
        small = Drafts.of_paths(*small.arrays)
        decisions = torch_decisions(record.generator)
        expected, _ = call_verifier(record.reference, small, decisions, state)
        record.accepted.append(verdict.num_accepted)
        record.expected.append(expected.num_accepted)
        if record.bounded:
            block = verifiers.get("block").verify(small, decisions)
            record.optimum.append(block.num_accepted)
        return verdict

    def advance(self, kept, verdict):
        with self.record.timed("advance", kept.device):
            super().advance(kept, verdict)


@dataclass(frozen=True)
class Run:
    """The texts after ``prompts``, and what was recorded; lengths int [calls] on the CPU."""

    prompts: list[list[int]]
    texts: list[tuple[int, ...]]
    accepted: Any
    expected: Any
    optimum: Any
    verification_ms: float
    call_ms: float
    calls: int
    peak_bytes: int
    paths: int = 1


def truncation_of(rule: Any) -> Truncation:
    """Return the whole vocabulary, or the most likely 20 tokens for a rule made for few tokens."""
    return Truncation() if traits_of(rule).largest_vocab_size is None else Truncation(top_k=20)


def observed(
    pair: Pair, reference: str, *, verifier: Any = None, loop: Any = ObservedBatch, seed: int = 1
) -> Run:
    """Decode all texts of a pair, a batch that fits in memory at a time, and record the calls.

    ``verifier`` and ``loop`` replace the rule named ``reference`` and the loop: planted defects do.
    """
    right = verifiers.get(reference)
    is_single = traits_of(right).single_path and not isinstance(right, StatefulVerifier)
    record = Record(right, pair.generator(seed + 1000), bounded=is_single and reference != "block")
    prompts, texts, generator = pair.prompts(pair.requests), [], pair.generator(seed)
    on_gpu = pair.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(pair.device)
    for start in range(0, len(prompts), pair.batch):
        decoded = decode(
            verifier or right,
            pair.target,
            pair.draft,
            prompts[start : start + pair.batch],
            max_new_tokens=pair.tokens,
            draft_length=pair.draft_length,
            num_paths=paths_of(pair, right),
            truncation=truncation_of(right),
            generator=generator,
            number_type=pair.number_type,
            loop=partial(loop, record=record),
        )
        texts += decoded.texts
    lengths = [_flat(one) for one in (record.accepted, record.expected, record.optimum)]
    peak = torch.cuda.max_memory_allocated(pair.device) if on_gpu else 0
    times = record.median_ms("verification"), record.median_ms("drafts", "verification", "advance")
    return Run(prompts, texts, *lengths, *times, record.calls, peak, paths_of(pair, right))


def decoded_texts(
    pair: Pair, name: str, prompts: Any, truncation: Truncation, seeds: Any = None
) -> list[Any]:
    """Return short texts after ``prompts`` by a rule; with ``seeds``, each request has one of its own."""
    rule = verifiers.get(name)
    decoded = decode(
        rule,
        pair.target,
        pair.draft,
        prompts,
        max_new_tokens=pair.few_tokens,
        draft_length=pair.draft_length,
        num_paths=paths_of(pair, rule),
        truncation=truncation,
        generator=pair.generator(1) if seeds is None else [pair.generator(seed) for seed in seeds],
        number_type=pair.number_type,
    )
    return list(decoded.texts)


def paths_of(pair: Pair, rule: Any) -> int:
    """Return the number of draft paths: one for rules that ignore all others."""
    return 1 if traits_of(rule).single_path else pair.num_paths


def target_only(pair: Pair, *, seed: int = 1) -> Run:
    """Sample every text from the target alone, token by token, with a cache."""
    prompts, texts = pair.prompts(pair.requests), []
    decisions = torch_decisions(pair.generator(seed))
    on_gpu = pair.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(pair.device)
    record = Record(None, None, bounded=False)
    for start in range(0, len(prompts), pair.batch):
        model = CachedModel(pair.target, prompts[start : start + pair.batch])
        tokens, text = model.unread[:, :0], []
        for _ in range(pair.tokens):
            with record.timed("call", pair.device):
                rows = Truncation().probabilities(model.read(tokens)[:, -1]).to(pair.number_type)
                tokens = decisions.categorical(rows)[:, None]
            text.append(tokens)
            record.calls += 1
        texts += map(tuple, torch.cat(text, dim=1).tolist())
    peak = torch.cuda.max_memory_allocated(pair.device) if on_gpu else 0
    nothing = np.zeros(0, dtype=np.int64)
    return Run(prompts, texts, nothing, nothing, nothing, 0.0, record.median_ms("call"), record.calls, peak)


def _flat(lengths: list[Any]) -> Any:
    return torch.cat(lengths).cpu().numpy() if lengths else np.zeros(0, dtype=np.int64)
