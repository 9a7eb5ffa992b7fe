"""Names of parameters of verification functions: a table from a name to the argument that an adapter passes.

    >>> role_of("draft_token_ids").what, role_of("cu_num_draft_tokens").flat
    ('drafted tokens', 'batch.ends')

A name is cut into words, and words of one meaning are spelled alike. The first row of `ROLES` whose words are
all in the name, the last word of the name among them, says what a parameter is.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Role(NamedTuple):
    """The meaning of a parameter, and the expression that an adapter passes for it, "" for none.

    ``flat``: for requests laid end to end (`spec_oracle.contracts.flat.FlatBatch`); ``padded``: for arrays
    [B, L], [B, L, V], [B, L+1, V]; ``chain``: for a chain given as a tree, where it differs from ``padded``;
    ``tree``: for draft trees, where it differs from ``chain``; ``none``: what None in its place means, ""
    where that is not known.
    """

    what: str
    flat: str = ""
    padded: str = ""
    chain: str = ""
    tree: str = ""
    none: str = ""

    @property
    def is_written(self) -> bool:
        """Whether the function writes into it."""
        return self.what.startswith("written")

    @property
    def is_of_trees(self) -> bool:
        """Whether only functions for trees have such a parameter."""
        return bool(self.chain or self.tree) and not self.padded


UNKNOWN: Final = Role("")
CUMULATIVE: Final = Role("cumulative lengths", "batch.ends")
LENGTHS: Final = Role(
    "drafted tokens of each request",
    "batch.lengths",
    "torch.full((len(draft_tokens),), draft_tokens.shape[1])",
)
LONGEST: Final = Role("longest draft", "batch.max_length", "draft_tokens.shape[1]")
TOKENS: Final = Role("drafted tokens", "batch.tokens", "draft_tokens", tree="tokens")
PARENTS: Final = Role("parent of each drafted token", tree="parents")
OF_PARENTS: Final = "parents_with_root(parents)"
DRAFT: Final = Role(
    "draft probabilities", "batch.draft_probs", "draft_probs", none="the drafts are taken as certain"
)
DRAFT_LOGITS: Final = Role(
    "draft logits", "logits_of(batch.draft_probs)", "logits_of(draft_probs)", none=DRAFT.none
)
TARGET: Final = Role("target probabilities", "{flat_target}", "{target}")
BONUS: Final = Role("bonus token", "batch.sample_bonus()", "sample_bonus(target_probs[:, -1])")
GENERATOR: Final = Role("generator", "generator", "generator")
SEED: Final = Role("seed", "fresh_seed(generator)", "fresh_seed(generator)")
UNIFORMS: Final = Role(
    *("uniforms", "torch.rand(len(batch.tokens), generator=generator)", "uniforms", "uniforms"),
    tree="torch.rand(tokens.shape[0], tokens.shape[1] + 1, generator=generator)",
)
UNUSED: Final = Role("not in use", "None", "None")
_ZEROS: Final = "torch.zeros(len(draft_tokens), dtype=torch.int64)"
THRESHOLD: Final = Role("acceptance threshold, 1 for none", "1.0", "1.0")
DETERMINISTIC: Final = Role("deterministic kernels", "True", "True")
COUNT: Final = Role(
    "written: number of accepted tokens", _ZEROS, _ZEROS, "torch.zeros(len(places), dtype=torch.int32)"
)
NEXT: Final = Role(
    "written: next token", _ZEROS, _ZEROS, "torch.full((places.numel(),), -1, dtype=torch.int32)"
)
OUTPUT: Final = Role(
    "written: emitted tokens",
    "torch.full((len(draft_tokens), batch.width), -1)",
    "torch.full((len(draft_tokens), draft_tokens.shape[1] + 1), -1)",
)
ACCEPTED_PLACES: Final = Role(
    "written: accepted places of the tree", "", "", "torch.full(places.shape, -1, dtype=torch.int32)"
)
REJECTED: Final = Role("written: probabilities of rejected tokens", chain="torch.zeros_like(target_probs)")
"""The draft's probabilities of a function that reads the target only: buffers of zeros."""
NO_GREEDY: Final = "no request is greedy"

ROLES: Final[Mapping[str, Role]] = {
    "threshold single | threshold accept": THRESHOLD,
    "deterministic": DETERMINISTIC,
    "retrieve index": Role(
        "places of the tree", "", "", "torch.arange(places.numel()).reshape(places.shape)"
    ),
    "retrieve next token | first child": Role(
        "first child of each place",
        chain="torch.nn.functional.pad(torch.arange(1, places.shape[1]), (0, 1), value=-1)"
        ".repeat(len(places), 1)",
        tree="first_child(parents)",
    ),
    "next sibling": Role(
        "next sibling of each place", chain="torch.full_like(places, -1)", tree="next_sibling(parents)"
    ),
    "parent | parent index": PARENTS,
    "tree mask | tree attention mask | ancestor | ancestor mask": Role(
        "the ancestors of each place, and itself: the mask of a tree", tree="ancestors(parents)"
    ),
    "tree depth | tree position | tree position token": Role("depth of each place", tree="depths(parents)"),
    "accept index": ACCEPTED_PLACES,
    "accept num | accept length | accept lengths | accept | emit draft num": COUNT,
    "predict | next token": NEXT,
    "output token | emit token": OUTPUT,
    "cumulative logits | cumulative num sample token": Role(
        "cumulative lengths, bonus tokens counted", "batch.ends + torch.arange(1, len(batch.ends) + 1)"
    ),
    "cumulative | cumulative lengths | cumulative token": CUMULATIVE,
    "max length | max draft | max token | max step | draft length": LONGEST,
    "num draft | num draft token | num draft step | lengths": LENGTHS,
    "target logits index": Role("where rows of drafted tokens lie", "batch.target_indices"),
    "bonus logits index": Role("where rows of bonus tokens lie", "batch.bonus_indices"),
    "bonus logits": Role("bonus logits", "logits_of(batch.bonus_probs)", "logits_of(target_probs[:, -1])"),
    "bonus probs": Role("bonus probabilities", "batch.bonus_probs", "target_probs[:, -1]"),
    "bonus | bonus token": BONUS,
    "all greedy": Role(
        "whether all are greedy", "bool(batch.is_greedy.all())", "bool(is_greedy.all())", tree="False"
    ),
    "all random": Role(
        "whether none is greedy", "not batch.is_greedy.any()", "not is_greedy.any()", tree="True"
    ),
    "greedy": Role(
        "greedy requests",
        "batch.is_greedy",
        "is_greedy",
        tree="torch.zeros(len(tokens), dtype=torch.bool)",
        none=NO_GREEDY,
    ),
    "temperature": Role(
        "temperature, 0 for greedy requests",
        "torch.where(batch.is_greedy, 0.0, 1.0)",
        "torch.where(is_greedy, 0.0, 1.0)",
        tree="torch.ones(len(tokens))",
        none=NO_GREEDY,
    ),
    "generators": Role(
        "a generator a request", "batch.generators(generator)", none="all requests share one generator"
    ),
    "generator | random state": GENERATOR,
    "seed": SEED,
    "top k | top p | min p | num logits | bad word token | allow token": UNUSED,
    "no penalty": Role("whether there are no penalties", "True", "True"),
    "uniform | uniform probs | random": UNIFORMS,
    "draft logits | draft log probs": DRAFT_LOGITS,
    "logits | log probs": Role("target logits", "logits_of({flat_target})", "logits_of({target})"),
    "draft probs": DRAFT,
    "probs": TARGET,
    "candidates": Role(
        "the token before the draft, then the draft",
        "",
        "torch.nn.functional.pad(draft_tokens, (1, 0))",
        "places",
        "places",
    ),
    "draft token": TOKENS,
    "device": Role("device", "draft_tokens.device", "draft_tokens.device"),
    "vocab size": Role("vocabulary", "draft_probs.shape[-1]", "draft_probs.shape[-1]"),
    "batch size": Role("batch", "len(draft_tokens)", "len(draft_tokens)"),
}
"""Words of a name, alternatives separated by bars, and what a parameter of that name is."""

WHOLE_NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("p", "target", "target_p", "p_target"), "target_probs"),
    **dict.fromkeys(("q", "draft_p", "draft_q", "q_draft"), "draft_probs"),
    **dict.fromkeys(("x", "tokens", "draft", "drafts", "proposal", "proposals"), "draft_tokens"),
    **dict.fromkeys(("input_ids", "input_token_ids"), "draft_tokens"),
    "u": "uniforms",
    "gamma": "max_length",
    "v": "vocab_size",
    "b": "batch_size",
}
"""Names that mean something only as a whole, and a name that says the same in words."""

_SPELLINGS: Final = """
accept: acc accepted acceptance
allow: allowed
ancestor: ancestors
attention: attn
bonus:
candidates:
cumulative: cu cumul cumulated cumsum offsets indptr
draft: drafts drafted spec speculative propose proposed proposal proposals assistant candidate small q
draft: speculated
emit: emitted
generator: gen rng prng
generators: rngs
greedy:
index: indices idx
depth: depths
length: len
lengths: lens seqlens
logits: logit logprob logprobs
mask: masks
parent: parents
output: out
position: positions pos
penalty: penalties
predict: predicts predicted
probs: prob probability probabilities dist dists distribution distributions
random: randoms
retrieve: retrive
sample: sampled
seed: seeds
sibling: siblings
step: steps
temperature: temperatures
token: tokens id ids
uniform: uniforms coin coins rand rands
word: words
"""
_WORDS: Final[Mapping[str, str]] = {
    spelling: word
    for word, _, spellings in (line.partition(":") for line in _SPELLINGS.split("\n") if line)
    for spelling in spellings.split()
}
_PREPOSITIONS: Final = frozenset(("for", "of", "per", "by", "at"))
_FORMS: Final = frozenset(
    ("tensor", "tensors", "array", "list", "buffer", "ptr", "samples", "numbers", "mask", "flags", "d")
)
"""Last words that say in what form a parameter comes; d: on the device."""


def role_of(name: str) -> Role:
    """Return the role of a parameter by its name; `UNKNOWN` if the table has no row for it."""
    words = words_of(WHOLE_NAMES.get(name.lower(), name))
    found = _role_of(words)
    while found is UNKNOWN and len(words) > 1 and words[-1] in _FORMS:
        words.pop()
        found = _role_of(words)
    return found


def _role_of(words: Sequence[str]) -> Role:
    for rows, role in ROLES.items():
        for row in rows.split(" | "):
            needed = row.split()
            if words[-1:] and words[-1] in needed and set(needed) <= set(words):
                return role
    return UNKNOWN


def words_of(name: str) -> list[str]:
    """Return the words of a name before its first preposition, each in the spelling of the table."""
    found = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    cut = next((place for place, word in enumerate(found) if place and word in _PREPOSITIONS), len(found))
    return [_WORDS.get(word, word) for word in map(str.lower, found[:cut])]
