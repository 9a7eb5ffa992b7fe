"""The decoding loop: draft K paths, read them with the target, verify, go on after what was emitted.

Both models keep their cache of the text. For a call it is copied once a path; of the paths only the one whose
prefix was accepted is kept, and its rejected tokens are masked. The last drafted token and the correction or
bonus token are then read together at the start of the next call.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import ScriptedDecisions, enumerate_branches
from spec_oracle.exact.arithmetic import Arithmetic
from spec_oracle.exact.call import BATCH_BYTES, call_verifier, fresh_state
from spec_oracle.exact.drafting import next_draft_law
from spec_oracle.language_models import CachedModel, LanguageModel, Truncation
from verifiers import (
    AnyVerifier,
    Drafts,
    ModelBound,
    Paths,
    SamplingDecisions,
    State,
    Verdict,
    drafting_of,
    torch_decisions,
)

if TYPE_CHECKING:
    import torch

Tensor: TypeAlias = "torch.Tensor"
Generators: TypeAlias = "torch.Generator | Sequence[torch.Generator] | None"


@dataclass(frozen=True)
class Decoded:
    """The ``texts`` after each prompt, stop token included, and what was accepted call by call.

    ``requests`` are the numbers of those that were still running, int [R] each, ``calls`` their accepted
    lengths tau; ``expected`` the expectations of tau given the drafts, over the verifier's decisions, float
    [R] each: empty where they were not asked for.
    """

    texts: tuple[tuple[int, ...], ...]
    requests: tuple[Integers, ...]
    calls: tuple[Integers, ...]
    expected: tuple[Floats, ...] = ()

    @property
    def accepted_lengths(self) -> Integers:
        """The accepted length of every request in every call, flat."""
        return np.concatenate(self.calls)

    @property
    def block_efficiency(self) -> float:
        """Mean tokens per call as sampled; tokens that a stop token or the limit cuts off count."""
        return float(self.accepted_lengths.mean()) + 1

    @property
    def conditional_block_efficiency(self) -> float:
        """Mean over sampled drafts of the exact expectation given them: same mean, less variance.

        The Rao-Blackwell estimate; NaN when the run did not compute expectations.
        """
        return float(np.concatenate(self.expected).mean()) + 1 if self.expected else float("nan")


def decode(
    verifier: AnyVerifier,
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    draft_length: int = 4,
    num_paths: int = 1,
    truncation: Truncation | None = None,
    stop_tokens: Collection[int] = (),
    generator: Generators = None,
    expectations: bool = False,
    number_type: "torch.dtype | None" = None,
    loop: "Callable[..., RunningBatch] | None" = None,
) -> Decoded:
    """Decode a text after each of ``prompts`` (token ids; may be equal), all in one batch.

    A text ends with the first of ``stop_tokens`` or after ``max_new_tokens`` tokens. ``truncation`` cuts both
    models' laws alike (the whole vocabulary at temperature 1 by default). ``generator``, a
    `torch.Generator` on the models' device, draws everything; with a sequence of generators, one a request,
    a request gets the same random numbers in any batch. ``expectations`` also enumerates the expected
    accepted length of every call given its drafts. ``number_type`` is the torch type of the rows that the
    verifier reads (float64 by default), ``loop`` the class of the running batch: a subclass of `RunningBatch`
    can record its calls. Raises `InvalidInputError` for sizes out of range, empty prompts, another number of
    generators than prompts, and verifiers that need a whole toy model.
    """
    if isinstance(verifier, ModelBound):
        raise InvalidInputError(f"verifier: {verifier!r} needs a toy model as a whole")
    for name, value in [
        ("max_new_tokens", max_new_tokens),
        ("draft_length", draft_length),
        ("num_paths", num_paths),
        ("prompts", min(map(len, prompts), default=0)),
    ]:
        if value < 1:
            raise InvalidInputError(f"{name}: expected at least 1, got {value}")
    if isinstance(generator, Sequence) and len(generator) != len(prompts):
        raise InvalidInputError(
            f"generator: {len(generator)} for {len(prompts)} prompts; expected one a prompt"
        )
    run = (loop or RunningBatch)(
        verifier,
        CachedModel(target, prompts),
        CachedModel(draft, prompts),
        draft_length,
        num_paths,
        truncation or Truncation(),
        generator,
        number_type,
    )
    texts: list[list[int]] = [[] for _ in prompts]
    running = list(range(len(prompts)))
    requests, calls, expected = [], [], list[Floats]()
    while running:
        verdict = run.call(expected if expectations else None)
        emitted = verdict.emitted.tolist()
        requests.append(np.array(running, dtype=np.int64))
        calls.append(verdict.num_accepted.cpu().numpy())
        going_on = []
        for position, request in enumerate(running):
            text = texts[request]
            text += [token for token in emitted[position] if token >= 0]
            end = _end(text, max_new_tokens, stop_tokens)
            if len(text) < end:
                going_on.append(position)
            del text[end:]
        run.keep(going_on)
        running = [running[position] for position in going_on]
    return Decoded(tuple(map(tuple, texts)), tuple(requests), tuple(calls), tuple(expected))


def _end(text: Sequence[int], most: int, stop_tokens: Collection[int]) -> int:
    """Return the length at which a text ends: after its first stop token, ``most`` at the latest."""
    stops = (position + 1 for position, token in enumerate(text) if token in stop_tokens)
    return min(next(stops, most), most)


@dataclass
class RunningBatch:
    """A batch of running requests; every `call` advances all of them.

    A call is `draft_paths`, `verify` and `advance`. ``generator`` and ``number_type`` as in `decode`.
    """

    verifier: AnyVerifier
    target: CachedModel
    draft: CachedModel
    draft_length: int
    num_paths: int
    truncation: Truncation
    generator: Generators = None
    number_type: "torch.dtype | None" = None

    def __post_init__(self) -> None:
        self.state = fresh_state(self.verifier, len(self.target.unread))
        self.decisions = torch_decisions(self.generator)
        if isinstance(self.generator, Sequence):
            self.generator = list(self.generator)
            self.decisions = SamplingDecisions(self._own_uniforms)

    def _own_uniforms(self, like: Tensor) -> Tensor:
        """Return uniforms in the shape of ``like``, each request's from its own generator."""
        import torch

        assert isinstance(self.generator, list)
        options = {"dtype": torch.float64, "device": like.device}
        return torch.stack([torch.rand(like.shape[1:], generator=own, **options) for own in self.generator])

    def keep(self, requests: list[int]) -> None:
        """Drop all other requests of the batch."""
        import torch

        index = torch.tensor(requests, dtype=torch.int64, device=self.target.unread.device)
        self._select(index)
        self.state = tuple(array[index] for array in self.state)
        if isinstance(self.generator, list):
            self.generator = [self.generator[request] for request in requests]

    def call(self, expected: list[Floats] | None = None) -> Verdict:
        """Draft, verify, and move both models on; return the verdict, and append E[tau | drafts]."""
        import torch

        batch = len(self.target.unread)
        requests = torch.arange(batch, device=self.target.unread.device)
        self._select(requests.repeat_interleave(self.num_paths))
        drafts = self.draft_paths(batch)
        if expected is not None:
            expected.append(accepted_given_drafts(self.verifier, drafts, self.state))
        verdict = self.verify(drafts)
        self.advance(requests * self.num_paths + verdict.node.clamp(min=0) % self.num_paths, verdict)
        return verdict

    def verify(self, drafts: Paths) -> Verdict:
        """Verify, over the tokens that top-k and top-p leave: far fewer than the vocabulary has."""
        small, names = without_unused_tokens(drafts)
        trees = Drafts.of_paths(*small.arrays)
        verdict, self.state = call_verifier(self.verifier, trees, self.decisions, self.state)
        next_token = names.gather(1, verdict.next_token[:, None])[:, 0]
        whole = Drafts.of_paths(*drafts.arrays)
        return Verdict(verdict.node, next_token, whole)

    def _select(self, texts: Tensor) -> None:
        self.target.select(texts)
        self.draft.select(texts)

    def _law(self, logits: Tensor, batch: int) -> Tensor:
        """Return the distributions [B, K, n, V] of logits [B K, n, V]."""
        law = self.truncation.probabilities(logits).to(self.number_type)
        return law.reshape(batch, self.num_paths, *law.shape[1:])

    def draft_paths(self, batch: int) -> Paths:
        """Draw the paths; the draft reads all of their tokens but the last, the target all."""
        import torch

        tokens = self.draft.unread.new_zeros((batch, self.num_paths, 0))
        rows = []
        logits = self.draft.read(tokens.new_zeros((batch * self.num_paths, 0)))
        for depth in range(self.draft_length):
            if depth:
                logits = self.draft.read(tokens[:, :, -1].reshape(-1, 1))
            rows.append(self._law(logits, batch))
            tokens = torch.cat([tokens, self.sample_children(rows[-1][:, :, 0], tokens)[:, :, None]], dim=2)
        target = self.target.read(tokens.reshape(-1, self.draft_length))
        return Paths(tokens, torch.cat(rows, dim=2), self._law(target, batch))

    def sample_children(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """Sample the next token of every path, int [B, K], from rows [B, K, V], as the verifier requires."""
        import torch

        drawn = tokens.new_zeros((len(rows), 0))
        for path in range(self.num_paths):
            here = (tokens == tokens[:, path : path + 1]).all(dim=2)
            law = next_draft_law(drafting_of(self.verifier), rows[:, path], drawn, here, path)
            drawn = torch.cat([drawn, self.decisions.categorical(law)[:, None]], dim=1)
        return drawn

    def advance(self, kept: Tensor, verdict: Verdict) -> None:
        """Keep the cache of one path a request, mask rejected tokens, and queue the tokens to read next."""
        import torch

        self._select(kept)
        tau = verdict.num_accepted[:, None]
        rejected = torch.arange(self.draft_length, device=tau.device)[None, :] >= tau
        # Of paths that agree so far any may go on: the last token counts only where all were accepted.
        path = verdict.node.clamp(min=0) % self.num_paths
        last = verdict.drafts.tokens.reshape(len(tau), -1, self.num_paths)[:, -1].gather(1, path[:, None])[
            :, 0
        ]
        unread = torch.stack([last, verdict.next_token], dim=1)
        # The draft has not read the last drafted token; it counts if all were accepted.
        counts = ~torch.cat([rejected[:, -1:], torch.zeros_like(rejected[:, -1:])], dim=1)
        self.draft.go_on(rejected[:, :-1], unread, counts)
        self.target.go_on(rejected, unread[:, 1:], counts[:, 1:])


def accepted_given_drafts(verifier: AnyVerifier, drafts: Paths, state: State) -> Floats:
    """Return E[tau | drafts], float [B], over the verifier's own decisions; arrays are torch tensors.

    The block efficiency is its mean over drafts plus one. Tokens that no row of a request gives mass are
    taken out first, so the cost grows with what top-k and top-p leave, not with the vocabulary.
    """
    import torch

    small, _ = without_unused_tokens(drafts)
    device, trees = drafts.tokens.device, Drafts.of_paths(*small.arrays)

    def run(rows: Integers, decisions: ScriptedDecisions) -> Verdict:
        index = torch.as_tensor(rows, device=device)
        kept = tuple(array[index] for array in state)
        verdict, _ = call_verifier(verifier, trees.take(index), decisions, kept)
        return verdict

    arithmetic = Arithmetic(
        from_numpy=lambda values: torch.as_tensor(values, device=device),
        to_numpy=lambda values: np.asarray(values.cpu().numpy()),
    )
    expected = np.zeros(drafts.batch)
    row_bytes = 8 * drafts.num_paths * (2 * drafts.draft_length + 1) * small.vocab_size
    max_rows = max(16, BATCH_BYTES // row_bytes)
    for branches in enumerate_branches(run, np.ones(drafts.batch), max_rows=max_rows, arithmetic=arithmetic):
        tau = arithmetic.to_numpy(branches.result.num_accepted)
        np.add.at(expected, branches.rows, branches.weight * tau)
    return expected


def without_unused_tokens(drafts: Paths) -> tuple[Paths, Tensor]:
    """Return the drafts over the tokens that some distribution of the request gives mass, in unchanged order.

    The second result, int [B, V'], holds the tokens' numbers in the vocabulary. A verifier never emits the
    others, so its law of the rest is the same. Requests with fewer such tokens than the request with the most
    keep some without mass; where that one uses more than half of the vocabulary, all tokens are kept.
    """
    used = (drafts.draft_probs > 0).any(dim=1).any(dim=1) | (drafts.target_probs > 0).any(dim=1).any(dim=1)
    most = int(used.sum(dim=1).max())
    if 2 * most > used.shape[1]:  # nothing to gain: copies of the rows cost more than the other tokens
        every = used.new_ones(used.shape, dtype=int).cumsum(dim=1) - 1
        return drafts, every
    kept = (~used).to(int).argsort(dim=1, stable=True)[:, :most].sort(dim=1).values
    rank = used.new_zeros(used.shape, dtype=int).scatter(1, kept, kept.new_ones(kept.shape).cumsum(dim=1) - 1)
    batch, paths, length = drafts.tokens.shape

    def gathered(rows: Tensor) -> Tensor:
        index = kept[:, None, None, :].expand(batch, paths, rows.shape[2], kept.shape[1])
        return rows.gather(-1, index)

    tokens = rank.gather(1, drafts.tokens.reshape(batch, -1)).reshape(batch, paths, length)
    return Paths(tokens, gathered(drafts.draft_probs), gathered(drafts.target_probs)), kept
