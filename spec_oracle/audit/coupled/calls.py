"""The check `calls` of coupled rules: the text of several calls is distributed as the target's.

Uniforms belong to places of the text: those that a call did not get to are read again by the next call. That
is harmless where a call ends by what lies before. Texts of several calls are sampled.
"""

from functools import partial

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.subject import CoupledSubject
from spec_oracle.audit.coupled.toys import chosen_instances
from spec_oracle.audit.draws import completion
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.exact.drafter_invariance import coupled_text
from spec_oracle.toy import Instance

VOCAB, DRAFTED, TOKENS = 3, 2, 4
"""Of the instances: tokens, drafted tokens of a call, and tokens of a text, which takes two calls or more.

Over two tokens nothing shows that corrections share noise with drafts: one token is left for them."""


def calls(subject: CoupledSubject, context: Context) -> CheckResult:
    """Judge texts of `TOKENS` tokens on the instances that show most."""
    instances = chosen_instances(VOCAB, DRAFTED, subject.num_paths, context.seed)
    rng = context.stream("coupled/calls")

    def texts(toy: Instance) -> Integers:
        shape = (effort.COUPLED_ROUND, toy.num_paths, TOKENS + DRAFTED, toy.vocab_size)
        found = coupled_text(subject.code, toy, rng.random(shape))
        return np.asarray(found @ toy.vocab_size ** np.arange(TOKENS)[::-1])

    rounds = ([texts(toy) for toy in instances] for _ in range(effort.COUPLED_ROUNDS))
    laws = [toy.floats.target.joint(TOKENS) for toy in instances]
    named = partial(completion, instances[0], tokens=TOKENS)
    what = f"texts of {TOKENS} tokens over several calls"
    return judge_rounds(what, laws, rounds, alpha=context.rate, named=named, admitted=context.admitted)
