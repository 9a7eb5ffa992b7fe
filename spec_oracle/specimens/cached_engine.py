"""A correct engine with key-value caches: two small Llamas of transformers; faulty ones replace a part.

Both models read every token once. What was drafted in vain is cut out of the caches before the next call, and
the last token of the text is read at its start. It keeps the system contract, and shows its steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

Tensor: TypeAlias = Any
Row: TypeAlias = Any

VOCAB = 3
PROMPT = (0, 1)


@cache
def model(seed: int) -> Any:
    """Return a Llama of one layer with random weights, in float64: the same one every time."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        attn_implementation="eager",
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
    )
    made = LlamaForCausalLM(config).to(torch.float64).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        parameter.normal_(generator=generator)
    return made


@dataclass
class Reader:
    """A model that has read a text, and the cache of it."""

    network: Any
    past: Any = None

    def read(self, tokens: Sequence[int]) -> Tensor:
        """Read more tokens; return the logits of what follows each of them, [n, V]."""
        import torch

        output = self.network(torch.tensor([[*tokens]]), past_key_values=self.past, use_cache=True)
        self.past = output.past_key_values
        return output.logits[0]

    def forget(self, count: int) -> None:
        """Take back the last tokens."""
        self.past.crop(-count)


@dataclass(frozen=True)
class Options:
    """What is done to logits before a token is drawn, and where texts end."""

    temperature: float = 1.0
    top_p: float = 1.0
    penalty: float = 0.0
    stop_token: int | None = None

    def row(self, logits: Tensor, text: Sequence[int]) -> Row:
        """Return the law of the token after a text: penalised by frequency, tempered, cut to the nucleus."""
        import torch

        counts = torch.bincount(torch.tensor([*text]), minlength=VOCAB)
        row = torch.softmax((logits - self.penalty * counts) / self.temperature, dim=-1)
        if self.top_p < 1:
            ordered, order = row.sort(descending=True)
            kept = ordered.cumsum(0) - ordered < self.top_p
            row = torch.zeros_like(row).scatter(0, order, ordered * kept)
        return row / row.sum()


def draw(weights: Row) -> int:
    """Draw a token."""
    import torch

    return int(torch.multinomial(weights, num_samples=1))


def passes(chance: Any) -> bool:
    """Toss a coin."""
    import torch

    return bool(torch.rand((), dtype=torch.float64) < chance)


# The correct parts.


def two_at_most(generation: "Generation", left: int) -> int:
    """Draft two tokens, or as many as are wanted besides the one that is always added."""
    return min(2, left - 1)


def sampled(row: Row, raw: Row) -> tuple[int, Row]:
    """Draw a draft from the processed row, and report that row."""
    return draw(row), row


def processed(options: Options, logits: Tensor, text: list[int], drafts: list[int]) -> list[Row]:
    """Return the rows of plain decoding after every draft."""
    return [options.row(logits[i], [*text, *drafts[:i]]) for i in range(len(drafts) + 1)]


def token_rule(drafts: list[int], q: list[Row], p: list[Row]) -> tuple[list[int], int]:
    """Verify by the token rule; return what is emitted, and how many drafts were accepted."""
    for i, token in enumerate(drafts):
        if not passes(p[i][token] / q[i][token]):
            left = (p[i] - q[i]).clamp(min=0)
            return [*drafts[:i], draw(left if left.sum() > 0 else p[i])], i
    return [*drafts, draw(p[-1])], len(drafts)


def refused(drafted: int, accepted: int) -> int:
    """Return how many of the last tokens that were read do not belong to the text."""
    return drafted - accepted


def last_of(emitted: list[int], before: list[int]) -> int:
    """Return the token that the target has not read yet."""
    return emitted[-1]


def trimmed(emitted: list[int], left: int, stop_token: int | None) -> list[int]:
    """Cut what follows a stop token or exceeds the budget."""
    if stop_token in emitted:
        emitted = emitted[: emitted.index(stop_token) + 1]
    return emitted[:left]


def own_seed(seed: int | None) -> None:
    """Seed the generator for a request that asks for it."""
    import torch

    if seed is not None:
        torch.manual_seed(seed)


def new_readers(engine: "CachedEngine") -> tuple[Reader, Reader]:
    """Begin with empty caches."""
    return Reader(model(1)), Reader(model(2))


def nothing(generation: "Generation") -> None:
    """Do nothing before a call."""


@dataclass(frozen=True)
class Parts:
    """What an engine is made of; the functions above are the right ones."""

    length: Callable[..., int] = two_at_most
    propose: Callable[..., tuple[int, Row]] = sampled
    target_rows: Callable[..., list[Row]] = processed
    verify: Callable[..., tuple[list[int], int]] = token_rule
    refused: Callable[..., int] = refused
    refused_by_draft: Callable[..., int] = refused
    unread: Callable[..., int] = last_of
    finish: Callable[..., list[int]] = trimmed
    seeding: Callable[..., None] = own_seed
    readers: Callable[..., tuple[Reader, Reader]] = new_readers
    before: Callable[..., None] = nothing


@dataclass(frozen=True)
class Step:
    """One call for a batch of one request; see `spec_oracle.systems.contract.Step`."""

    draft_tokens: list[list[int]]
    draft_probs: list[list[list[float]]]
    tokens: list[list[int]]
    num_accepted: list[int]


@dataclass
class Generation:
    """A text that is being decoded."""

    engine: "CachedEngine"
    text: list[int]
    left: int
    seed: int | None
    unread: list[int] = field(init=False)
    unread_by_draft: list[int] = field(init=False)
    is_over: bool = False
    calls: int = 0

    def __post_init__(self) -> None:
        self.target, self.draft = self.engine.parts.readers(self.engine)
        self.unread, self.unread_by_draft = [*self.text], [*self.text]

    def step(self) -> Step:
        """Draft, verify, and go on after what is emitted."""
        parts, options = self.engine.parts, self.engine.options
        parts.before(self)
        drafts, q = self._drafted(parts.length(self, self.left))
        logits = self.target.read([*self.unread, *drafts])[-len(drafts) - 1 :]
        p = parts.target_rows(options, logits, self.text, drafts)
        emitted, accepted = parts.verify(drafts, q, p)
        self._go_on(drafts, emitted, accepted)
        kept = parts.finish(emitted, self.left, options.stop_token)
        self.text += kept
        self.left -= len(kept)
        self.is_over = self.left <= 0 or (bool(kept) and kept[-1] == options.stop_token)
        self.calls += 1
        self.engine.drafted += len(drafts)
        self.engine.accepted += accepted
        return Step([drafts], [[row.tolist() for row in q]], [kept], [min(accepted, len(kept))])

    def _drafted(self, count: int) -> tuple[list[int], list[Row]]:
        drafts: list[int] = []
        rows: list[Row] = []
        for _ in range(count):
            logits = self.draft.read([*self.unread_by_draft, *drafts[-1:]])[-1]
            self.unread_by_draft = []
            row = self.engine.options.row(logits, [*self.text, *drafts])
            token, reported = self.engine.parts.propose(row, logits.softmax(-1))
            drafts.append(token)
            rows.append(reported)
        return drafts, rows

    def _go_on(self, drafts: list[int], emitted: list[int], accepted: int) -> None:
        """Cut the caches back to the text, and note what is still to be read."""
        parts, count = self.engine.parts, len(drafts)
        self.target.forget(parts.refused(count, accepted))
        self.unread = [parts.unread(emitted, self.text)]
        if not count:
            self.unread_by_draft.append(emitted[-1])
            return
        # The draft has not read the last one of its drafts.
        self.draft.forget(max(parts.refused_by_draft(count, accepted) - 1, 0))
        self.unread_by_draft = [*drafts[count - 1 : accepted], emitted[-1]]


class CachedEngine:
    """An engine of the system contract; ``parts`` are its own, ``options`` those of every request."""

    vocab_size = VOCAB
    prompts = (PROMPT,)
    draft_length = 2

    def __init__(
        self, parts: Parts | None = None, options: Options | None = None, rule: str | None = "token"
    ) -> None:
        self.parts, self.options, self.rule = parts or Parts(), options or Options(), rule
        self.drafted = self.accepted = 0

    @property
    def stop_tokens(self) -> list[int]:
        """The token that ends a text."""
        return [] if self.options.stop_token is None else [self.options.stop_token]

    def next_token_probs(self, context: Sequence[int]) -> Row:
        """Return the law of plain decoding, computed without a cache."""
        return self.options.row(Reader(model(1)).read(context)[-1], context)

    def draft_probs(self, context: Sequence[int]) -> Row:
        """Return the law that the drafter is meant to have."""
        return self.options.row(Reader(model(2)).read(context)[-1], context)

    def start(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> Generation:
        """Begin a text."""
        self.drafted = self.accepted = 0
        self.parts.seeding(seed)
        return Generation(self, [*prompt], max_new_tokens, seed)

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        generation = self.start(prompt, max_new_tokens, seed)
        while not generation.is_over:
            generation.step()
        return generation.text[len(prompt) :]


def cached_engine(options: Options | None = None, rule: str | None = "token", **parts: Any) -> CachedEngine:
    """Return the correct engine, with some parts replaced."""
    return CachedEngine(replace(Parts(), **parts), options, rule)


def replacing(name: str, **keywords: Any) -> Callable[[Any], Callable[[], CachedEngine]]:
    """Return what makes of a part the engine that has it as ``name``; see `Parts` for the names."""
    return lambda part: lambda: cached_engine(**{name: part}, **keywords)
