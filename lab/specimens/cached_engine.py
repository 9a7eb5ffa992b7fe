"""A correct engine with key-value caches: two small Llamas of transformers; faulty ones replace a part.

Both models read every token once. What was drafted in vain is cut out of the caches before the next call, and
the last token of the text is read at its start. It keeps the engine contract, and shows its steps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeAlias

from spec_oracle.contracts.engine import Step
from spec_oracle.language_models import cache_name
from spec_oracle.third_party.engines.hugging_face import VOCAB, small_model

Tensor: TypeAlias = Any
Row: TypeAlias = Any

PROMPT = (0, 1)


@cache
def model(seed: int) -> Any:
    """Return a Llama of one layer: the same one every time."""
    return small_model(seed, 1)


@dataclass
class Reader:
    """A model that has read a text, and the cache of it."""

    network: Any
    past: Any = None
    length: int = 0

    def read(self, tokens: Sequence[int]) -> Tensor:
        """Read more tokens; return the logits of what follows each of them, [n, V]."""
        import torch

        name = cache_name(self.network)
        output = self.network(torch.tensor([[*tokens]]), use_cache=True, **{name: self.past})
        self.past = output[name]
        self.length += len(tokens)
        return output.logits[0]

    def forget(self, count: int) -> None:
        """Take back the last tokens."""
        if count > 0 and self.length:
            self.past.crop(-count)
            self.length -= count


@dataclass(frozen=True)
class Options:
    """What is done to logits before a token is drawn, and where texts end."""

    temperature: float = 1.0
    penalty: float = 0.0
    stop_token: int | None = None

    def row(self, logits: Tensor, text: Sequence[int]) -> Row:
        """Return the law of the token after a text: penalised by frequency, tempered."""
        import torch

        counts = torch.bincount(torch.tensor([*text]), minlength=VOCAB)
        row = torch.softmax((logits - self.penalty * counts) / self.temperature, dim=-1)
        return row / row.sum()


def draw(weights: Row) -> int:
    """Draw a token."""
    import torch

    token: int = torch.multinomial(weights, num_samples=1).item()
    return token


def passes(chance: Any) -> bool:
    """Toss a coin."""
    import torch

    return bool(torch.rand((), dtype=torch.float64) < chance)


# The correct parts.


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


def trimmed(emitted: list[int], left: int, stop_token: int | None) -> list[int]:
    """Cut what follows a stop token or exceeds the budget."""
    if stop_token is not None and stop_token in emitted:
        emitted = emitted[: emitted.index(stop_token) + 1]
    return emitted[:left]


@dataclass(frozen=True)
class Parts:
    """What an engine is made of, the right ones unless told otherwise."""

    length: Callable[["Generation", int], int] = lambda generation, left: min(2, left - 1)
    """How many tokens to draft, given how many are still wanted, the one that is always added included."""

    propose: Callable[..., tuple[int, Row]] = sampled
    target_rows: Callable[..., list[Row]] = processed
    verify: Callable[..., tuple[list[int], int]] = token_rule
    goes_on: Callable[[float], bool] = lambda chance: True
    """Whether to go on drafting after a draft of that chance."""

    forgotten: Callable[[int], int] = lambda count: count
    """How many tokens to cut out of the target's cache, given how many do not belong to the text."""

    unread: Callable[..., list[int]] = lambda after, before, kept: after[kept:]
    """What the target has still to read of the text."""

    finish: Callable[..., list[int]] = trimmed


@dataclass
class Generation:
    """A text that is being decoded."""

    engine: "CachedEngine"
    text: list[int]
    left: int
    unread: list[int] = field(init=False)
    unread_by_draft: list[int] = field(init=False)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.target, self.draft = map(Reader, self.engine.models)
        self.unread, self.unread_by_draft = [*self.text], [*self.text]

    def step(self) -> Step:
        """Draft, verify, and go on after what is emitted."""
        parts, options = self.engine.parts, self.engine.options
        drafts, q = self._drafted(parts.length(self, self.left))
        logits = self.target.read([*self.unread, *drafts])[-len(drafts) - 1 :]
        p = parts.target_rows(options, logits, self.text, drafts)
        emitted, accepted = parts.verify(drafts, q, p)
        self._go_on(emitted, accepted)
        kept = parts.finish(emitted, self.left, options.stop_token)
        self.text += kept
        self.left -= len(kept)
        self.is_over = self.left <= 0 or (options.stop_token is not None and options.stop_token in kept[-1:])
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
            if not self.engine.parts.goes_on(float(row[token])):
                break
        return drafts, rows

    def _go_on(self, emitted: list[int], accepted: int) -> None:
        """Cut the caches back to what the text shares with them, and note what is still to be read."""
        parts, after = self.engine.parts, [*self.text, *emitted]
        shared = min(len(self.text) + accepted, len(after) - 1)
        self.target.forget(parts.forgotten(self.target.length - shared))
        self.unread = parts.unread(after, self.text, shared)
        shared = min(self.draft.length, shared)
        self.draft.forget(self.draft.length - shared)
        self.unread_by_draft = after[shared:]


class CachedEngine:
    """An engine of the engine contract; ``parts`` are its own, ``options`` those of every request."""

    vocab_size = VOCAB
    prompts = (PROMPT,)
    draft_length = 2

    def __init__(self, parts: Parts, options: Options | None = None, rule: str | None = "token") -> None:
        self.parts, self.options, self.rule = parts, options or Options(), rule
        # Made before anything is followed: what they import draws random numbers.
        self.models = model(1), model(2)
        self.drafted = self.accepted = 0

    @property
    def stop_tokens(self) -> list[int]:
        """The token that ends a text."""
        return [] if self.options.stop_token is None else [self.options.stop_token]

    def next_token_probs(self, context: Sequence[int]) -> Row:
        """Return the law of plain decoding, computed without a cache."""
        return self.options.row(Reader(self.models[0]).read(context)[-1], context)

    def draft_probs(self, context: Sequence[int]) -> Row:
        """Return the law that the drafter is meant to have."""
        return self.options.row(Reader(self.models[1]).read(context)[-1], context)

    def start(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> Generation:
        """Begin a text."""
        self.drafted = self.accepted = 0
        if seed is not None:
            import torch

            torch.manual_seed(seed)
        return Generation(self, [*prompt], max_new_tokens)

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        generation = self.start(prompt, max_new_tokens, seed)
        while not generation.is_over:
            generation.step()
        return generation.text[len(prompt) :]


def replacing(name: str, options: Options | None = None, **others: Any) -> Callable[[Any], Any]:
    """Return what makes of a part the engines that have it as ``name``; see `Parts` for the names.

    ``others`` are further parts; ``rule`` is what it declares, "token" unless told otherwise.
    """
    rule = others.pop("rule", "token")
    return lambda part: partial(_made, replace(Parts(), **{name: part}, **others), options, rule)


def _made(parts: Parts, options: Options | None, rule: str | None) -> Mapping[str, CachedEngine]:
    return {"": CachedEngine(parts, options, rule)}
