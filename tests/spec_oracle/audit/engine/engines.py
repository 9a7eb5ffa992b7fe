"""Small hand-written engines on two tables of rows: a right one, and what goes wrong in others."""

import functools
import itertools
import math
import random

import numpy as np

VOCAB = 3
FRESH = itertools.count()


def rows(seed):
    """Return a function from contexts to rows, other ones after every pair of last tokens."""
    chance = random.Random(seed)
    table = {}
    for context in [(), *((a,) for a in range(VOCAB)), *((a, b) for a in range(VOCAB) for b in range(VOCAB))]:
        weights = [chance.random() + 0.05 for _ in range(VOCAB)]
        table[context] = [weight / sum(weights) for weight in weights]
    return lambda context: table[tuple(context[-2:])]


TARGET, DRAFT = rows(1), rows(2)


class Right:
    """The token rule with drafts of two tokens; counts what it drafted and accepted."""

    prompts = ((0,), (1, 2))
    draft_length = 2
    source = random

    def __init__(self):
        self.begin()

    def begin(self):
        self.drafted = self.accepted = 0

    def next_token_probs(self, context):
        return TARGET(context)

    def draft_probs(self, context):
        return DRAFT(context)

    def seed(self, seed):
        if seed is not None:
            self.source.seed(seed)

    def generate(self, prompt, max_new_tokens, seed=None):
        self.seed(seed)
        self.begin()
        text = []
        while len(text) < max_new_tokens:
            text += self.call([*prompt, *text], max_new_tokens - len(text))
            if self.is_over(text):
                break
        return self.finished(text, max_new_tokens)

    def is_over(self, text):
        return False

    def finished(self, text, max_new_tokens):
        return text

    def call(self, context, left):
        drafts = []
        for _ in range(min(self.draft_length, left - 1)):
            drafts.append(self.drafter([*context, *drafts]))
        self.note(drafted=len(drafts))
        return self.verified(context, drafts)

    def note(self, drafted=0, accepted=0):
        self.drafted += drafted
        self.accepted += accepted

    def verified(self, context, drafts):
        emitted = []
        for token in drafts:
            p, q = self.target(context, emitted), self.draft_probs([*context, *emitted])
            if not self.source.random() * q[token] < p[token]:
                return [*emitted, self.draw([max(x - y, 0) for x, y in zip(p, q, strict=True)])]
            emitted.append(token)
            self.note(accepted=1)
        return [*emitted, self.draw(self.target(context, emitted))]

    def target(self, context, emitted):
        return self.next_token_probs([*context, *emitted])

    def drafter(self, context):
        return self.draw(self.draft_probs(context))

    def draw(self, weights):
        return self.source.choices(range(VOCAB), weights)[0]


class GreedyDrafts(Right):
    """Drafts the likeliest token, and tests it as if it had been drawn."""

    def call(self, context, left):
        drafts = []
        for _ in range(min(self.draft_length, left - 1)):
            row = self.draft_probs([*context, *drafts])
            drafts.append(row.index(max(row)))
        self.note(drafted=len(drafts))
        return self.verified(context, drafts)


class StaleToken(Right):
    """Target rows of later drafts are those of the prompt's last token."""

    def target(self, context, emitted):
        return self.next_token_probs(
            [*context[:-1], context[-1]] if len(emitted) == 1 else [*context, *emitted]
        )


class WrongAfterTwo(Right):
    """Is right for two tokens; later it conditions on a token that was never said."""

    def target(self, context, emitted):
        after = [*context, *emitted]
        return self.next_token_probs(after if len(after) < 4 else [0, 0])


class WrongLate(Right):
    """Is right for sixteen tokens; later tokens are sampled from the rows of drafts."""

    def target(self, context, emitted):
        after = [*context, *emitted]
        return self.next_token_probs(after) if len(after) < 16 else DRAFT(after)


class PastTheStop(Right):
    """Looks for the stop token at the end of a call only."""

    stop_tokens = (2,)

    def is_over(self, text):
        return text[-1] == 2


class Stops(Right):
    """Ends at the first stop token, as it should."""

    stop_tokens = (2,)

    def is_over(self, text):
        return 2 in text

    def finished(self, text, max_new_tokens):
        return text[: text.index(2) + 1] if 2 in text else text


class StopsWithDraftsOnly(Stops):
    """Right, but for its adapter: without drafts it does not look for the stop token."""

    def generate_plain(self, prompt, max_new_tokens, seed=None):
        return WrongRows.generate_plain(self, prompt, max_new_tokens, seed)


class BudgetInCalls(Right):
    """Makes as many calls as it may make tokens."""

    def generate(self, prompt, max_new_tokens, seed=None):
        text = []
        for _ in range(max_new_tokens):
            text += self.call([*prompt, *text], 3)
        return text


class NoLimit(Right):
    """Does not look at max_new_tokens."""

    def generate(self, prompt, max_new_tokens, seed=None):
        return super().generate(prompt, 6, seed)


class WithPrompt(Right):
    """Returns the whole text, as some libraries do."""

    def generate(self, prompt, max_new_tokens, seed=None):
        return [*prompt, *super().generate(prompt, max_new_tokens, seed)]


class Logits(Right):
    """Reports logarithms, not probabilities."""

    def next_token_probs(self, context):
        return np.log(super().next_token_probs(context))


class RowOfBatch(Right):
    """Reports a batch of one row."""

    def next_token_probs(self, context):
        return np.asarray(super().next_token_probs(context))[None]


class Foreign(Right):
    """Numbers its tokens from one."""

    def finished(self, text, max_new_tokens):
        return [token + 1 for token in text]


class Raises(Right):
    def generate(self, prompt, max_new_tokens, seed=None):
        raise RuntimeError("out of cache blocks")


class Exits(Right):
    def generate(self, prompt, max_new_tokens, seed=None):
        raise SystemExit(0)


class NoText(Right):
    def finished(self, text, max_new_tokens):
        return "".join(map(str, text))


class KeepsCounts(Right):
    """Penalises tokens that were said in earlier generations."""

    def __init__(self):
        super().__init__()
        self.said = [0] * VOCAB

    def target(self, context, emitted):
        row = [p * 0.5 ** min(n, 3) for p, n in zip(super().target(context, emitted), self.said, strict=True)]
        return [p / sum(row) for p in row]

    def finished(self, text, max_new_tokens):
        for token in text:
            self.said[token] += 1
        return text


class Adapts(Right):
    """Drafts more after success, also in the next generation: state that does not matter."""

    def __init__(self):
        super().__init__()
        self.draft_length = 1

    def finished(self, text, max_new_tokens):
        self.draft_length = 2 if self.accepted else 1
        return text


class FirstIsWrong(Right):
    """Its first generation drafts from another model than it says."""

    def __init__(self):
        super().__init__()
        self.is_warm = False

    def target(self, context, emitted):
        return super().target(context, emitted) if self.is_warm else self.draft_probs([*context, *emitted])

    def finished(self, text, max_new_tokens):
        self.is_warm = True
        return text


class SameNoiseAgain(Right):
    """Sets its generator to the request's seed in every call."""

    def generate(self, prompt, max_new_tokens, seed=None):
        self.again = next(FRESH) if seed is None else seed
        return super().generate(prompt, max_new_tokens, seed)

    def call(self, context, left):
        self.source.seed(self.again)
        return super().call(context, left)


class OneStream(Right):
    """Every request without a seed starts from the same state."""

    def seed(self, seed):
        self.source.seed(0 if seed is None else seed)


class IgnoresSeed(Right):
    def seed(self, seed):
        pass


class EvenSeedsForgetTheContext(Right):
    """Takes the lowest bit of a seed for another option."""

    def seed(self, seed):
        super().seed(seed)
        self.forgets = seed is not None and seed % 2 == 0

    def target(self, context, emitted):
        return self.next_token_probs([] if self.forgets else [*context, *emitted])


class NeverAccepts(Right):
    def verified(self, context, drafts):
        return [self.draw(self.target(context, []))]


class NeverDrafts(Right):
    draft_length = 0


class WrongRows(Right):
    """The adapter tells rows without the penalty that the engine has, with drafts and without."""

    def next_token_probs(self, context):
        return DRAFT(context)

    def target(self, context, emitted):
        return TARGET([*context, *emitted])

    def generate_plain(self, prompt, max_new_tokens, seed=None):
        self.seed(seed)
        text = []
        for _ in range(max_new_tokens):
            text.append(self.draw(TARGET([*prompt, *text])))
        return text


class HiddenByWrongRows(WrongRows):
    """What it generates agrees with the wrong rows, not with plain decoding."""

    def target(self, context, emitted):
        return DRAFT([*context, *emitted])


class NoRow(Right):
    def next_token_probs(self, context):
        return [1, 2, 3]


class ShortRow(Right):
    vocab_size = 3

    def next_token_probs(self, context):
        return [0.5, 0.5]


class OtherWidths(Right):
    """After one token of a completion it returns rows of another vocabulary."""

    def next_token_probs(self, context):
        return super().next_token_probs(context) if len(context) == 1 else [0.25] * 4

    def target(self, context, emitted):
        return TARGET([*context, *emitted])


class BatchWithoutSeeds(Right):
    def generate_batch(self, prompts, max_new_tokens):
        return [self.generate(prompt, max_new_tokens) for prompt in prompts]


class Spied(Right):
    """Says nothing of its drafts, but shows its drafter."""

    def begin(self):
        pass

    def note(self, drafted=0, accepted=0):
        pass


class SpiedIdle(Spied):
    draft_length = 0


class Silent(Spied):
    """Says nothing of its drafts, and shows no drafter."""

    drafter = None

    def call(self, context, left):
        drafts = []
        for _ in range(min(self.draft_length, left - 1)):
            drafts.append(Right.drafter(self, [*context, *drafts]))
        return self.verified(context, drafts)


class Together(Right):
    """Generates several texts at once, one after the other."""

    def generate_batch(self, prompts, max_new_tokens, seeds):
        return [self.generate(p, max_new_tokens, s) for p, s in zip(prompts, seeds, strict=True)]


class UnlikeLimits(Right):
    """Takes a list of limits, one for each request of a batch."""

    limits_per_request = True

    def generate_batch(self, prompts, max_new_tokens, seeds):
        return [self.generate(*one) for one in zip(prompts, max_new_tokens, seeds, strict=True)]


class LimitOfTheFirst(UnlikeLimits):
    """Decodes a batch up to the limit of its first request."""

    def generate_batch(self, prompts, max_new_tokens, seeds):
        return super().generate_batch(prompts, [max_new_tokens[0]] * len(prompts), seeds)


class RowsOfTheLongest(UnlikeLimits):
    """A request with a smaller limit than another one of its batch goes on from another text."""

    def generate_batch(self, prompts, max_new_tokens, seeds):
        most = max(max_new_tokens)
        read = [[*p, 0] if n < most else p for p, n in zip(prompts, max_new_tokens, strict=True)]
        return super().generate_batch(read, max_new_tokens, seeds)


class Seeded(Together):
    """Gives each request a generator of its own, whether alone or in a batch."""

    batch_invariant = True


class SeededByTheBatch(Together):
    """Lets the requests of a batch share the generator of the first one: right, and not reproducible."""

    def generate_batch(self, prompts, max_new_tokens, seeds):
        self.seed(next((seed for seed in seeds if seed is not None), None))
        return [self.generate(prompt, max_new_tokens) for prompt in prompts]


class PromisesTooMuch(SeededByTheBatch):
    batch_invariant = True


class SharedNoise(Right):
    """All texts of a batch that have the same prompt are one text."""

    def generate_batch(self, prompts, max_new_tokens, seeds):
        first = self.generate(prompts[0], max_new_tokens)
        second = self.generate(prompts[1], max_new_tokens)
        return [first, second if first[0] != second[0] else first]


class OtherRowsInBatches(Together):
    """Pads prompts, and reads the padding."""

    def generate_batch(self, prompts, max_new_tokens, seeds):
        longest = max(map(len, prompts))
        padded = [[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts]
        return super().generate_batch(padded, max_new_tokens, seeds)


class Step:
    def __init__(self, drafts, rows, emitted, accepted):
        self.draft_tokens, self.draft_probs = [drafts], [rows]
        self.tokens, self.num_accepted = [emitted], [accepted]


class Session:
    def __init__(self, engine, prompt, max_new_tokens, seed):
        self.engine, self.text, self.end = engine, list(prompt), len(prompt) + max_new_tokens
        engine.seed(seed)

    def step(self):
        emitted = self.engine.call(self.text, self.end - len(self.text))
        drafts = self.engine.seen
        rows = [self.engine.draft_probs([*self.text, *drafts[:i]]) for i in range(len(drafts))]
        self.text += emitted
        return Step(drafts, rows, emitted, self.engine.accepted_of(emitted))


class BufferedSession(Session):
    def step(self):
        step, emitted = super().step(), self.engine.emitted
        emitted[:] = -1
        emitted[0, : len(step.tokens[0])] = step.tokens[0]
        step.tokens = emitted
        return step


class Stepwise(Right):
    """Shows its steps."""

    rule = "token"

    def start(self, prompt, max_new_tokens, seed=None):
        return Session(self, prompt, max_new_tokens, seed)

    def verified(self, context, drafts):
        self.seen = [*drafts]
        return super().verified(context, drafts)

    def accepted_of(self, emitted):
        return len(emitted) - 1


class StepsOfGreedyDrafts(Stepwise):
    def drafter(self, context):
        row = self.draft_probs(context)
        return row.index(max(row))


class IgnoresItsRows(Stepwise):
    """Takes drafts for certain: right, and accepts less."""

    def verified(self, context, drafts):
        self.seen, emitted = [*drafts], []
        for token in drafts:
            emitted.append(self.draw(self.target(context, emitted)))
            if emitted[-1] != token:
                return emitted
            self.note(accepted=1)
        return [*emitted, self.draw(self.target(context, emitted))]


class CountsWrong(Stepwise):
    def accepted_of(self, emitted):
        return len(emitted)


class OneBuffer(Stepwise):
    """Writes every row, and what each step shows, into the same arrays."""

    def __init__(self):
        super().__init__()
        self.row, self.emitted = np.zeros(VOCAB), np.zeros((1, 3), np.int64)

    def next_token_probs(self, context):
        self.row[:] = TARGET(context)
        return self.row

    def target(self, context, emitted):
        return TARGET([*context, *emitted])

    def rows_along(self, prompt, completion):
        for end in range(len(completion)):
            yield self.next_token_probs([*prompt, *completion[:end]])

    def start(self, prompt, max_new_tokens, seed=None):
        return BufferedSession(self, prompt, max_new_tokens, seed)


class OneBufferForgets(OneBuffer):
    """Target rows are those of the last token alone, and off by little."""

    def target(self, context, emitted):
        row = [1.01 * p if token else p for token, p in enumerate(TARGET([*context, *emitted]))]
        return [p / sum(row) for p in row]


class Unfollowable(Right):
    """Squares its random numbers, which is followed, and takes their sine, which is not."""

    def verified(self, context, drafts):
        emitted = []
        for token in drafts:
            p, q = self.target(context, emitted), self.draft_probs([*context, *emitted])
            if not math.asin(math.sin(self.source.random())) * q[token] < p[token]:
                return [*emitted, self.draw([max(x - y, 0) for x, y in zip(p, q, strict=True)])]
            emitted.append(token)
            self.note(accepted=1)
        return [*emitted, self.draw(self.target(context, emitted))]


@functools.cache
def large_row(token, seed):
    chance = random.Random(1000 * seed + token % 3)
    weights = [chance.random() ** 4 for _ in range(Large.vocab_size)]
    return [weight / sum(weights) for weight in weights]


class Large(Unfollowable):
    """Has many tokens, whose rows depend on the last one."""

    vocab_size = 40

    def next_token_probs(self, context):
        return large_row(context[-1], 1)

    def draft_probs(self, context):
        return large_row(context[-1], 2)

    def draw(self, weights):
        return self.source.choices(range(self.vocab_size), weights)[0]


class LargeGreedy(Large):
    def drafter(self, context):
        row = self.draft_probs(context)
        return row.index(max(row))


class Conversation(Stops):
    """Keeps the tokens of its last conversation, and goes on from them; its draws are given by a class."""

    prompts = ((0,),)
    keeps_stop_token = True

    def __init__(self):
        super().__init__()
        self.said, self.kept = [], []

    def generate(self, prompt, max_new_tokens, seed=None):
        is_next = self.said and prompt[: len(self.said)] == self.said
        context = [*self.kept, *prompt[len(self.said) :]] if is_next else [*prompt]
        new = super().generate(context, max_new_tokens, seed)
        self.said = [*prompt, *new]
        self.kept = [*context, *(new if self.keeps_stop_token or new[-1] != 2 else new[:-1])]
        return new


class ForgetsTheStopToken(Conversation):
    keeps_stop_token = False


class Untraced(Conversation):
    """Takes the sine of its random numbers, which is not followed."""

    def draw(self, weights):
        u = (math.sin(1e5 * self.source.random()) * 1e3) % 1
        return next(token for token in range(VOCAB) if u < sum(weights[: token + 1]) / sum(weights))


class CountsFromThePrompt(Right):
    """Has other rows for the first two tokens: a longer prompt is none of those its rows are told for."""

    prompts = ((0,),)
    start = 1
    first = 2

    def next_token_probs(self, context):
        return self.row(context)

    def row(self, context):
        return TARGET(context if len(context) - self.start < self.first else [0, 0])

    def generate(self, prompt, max_new_tokens, seed=None):
        self.start = len(prompt)
        found = super().generate(prompt, max_new_tokens, seed)
        self.start = 1
        return found


class ShortPrompts(Right):
    prompts = ((0,),)

    def generate(self, prompt, max_new_tokens, seed=None):
        if len(prompt) > 3:
            raise ValueError("prompts of up to 3 tokens")
        return super().generate(prompt, max_new_tokens, seed)


class Flat(Right):
    """Has tokens that are all equally likely."""

    vocab_size = 64
    prompts = ((0,),)
    missing = frozenset()

    def next_token_probs(self, context):
        return [1 / self.vocab_size] * self.vocab_size

    draft_probs = next_token_probs

    def draw(self, weights):
        drawn = self.source.choices(range(self.vocab_size), weights)[0]
        return drawn - 1 if drawn in self.missing else drawn


class NeverTheUpperHalf(Flat):
    """Has room for half of the vocabulary."""

    def draw(self, weights):
        return super().draw(weights) % 32


class NeverSomeIds(Flat):
    """Takes the id before for one of seven ids."""

    missing = frozenset(range(3, Flat.vocab_size, 7))


class NoReference:
    def generate(self, prompt, max_new_tokens, seed=None):
        return [0] * max_new_tokens


class UnknownRule(Right):
    rule = "tokens"


def make():
    return Right()
