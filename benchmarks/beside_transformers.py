"""Verification beside transformers' own rule: eager and compiled, in one run, as a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/beside_transformers.py

V = 151,936, L = 8, float32, milliseconds a request, medians. transformers' rule takes one request and logits,
so its softmax is in its time; it is timed beside every measurement of ours, and the ratio is of these two.
Compiled is `torch.compile` of a rule on replayed uniforms; tests/verifiers/test_compiled.py holds it to the
eager rule.
"""

import torch
from transformers.generation.utils import _speculative_sampling
from verification import drafts, hardware, seconds

import verifiers
from verifiers import Drafts, replayed_decisions, torch_decisions

VOCAB, LENGTH, BATCHES = 151_936, 8, (1, 16)


def theirs(given):
    """Return a call of transformers' rule on the first request."""
    tokens = torch.cat([torch.zeros(1, dtype=torch.long), given.tokens[0, 0]])[None]
    draft, target = (rows[0].log() for rows in (given.draft_probs, given.target_probs))
    return lambda: _speculative_sampling(tokens, draft, LENGTH, target)


def ours(given, name):
    """Return calls of a rule of ours on all requests, by how they are run."""
    rule, decisions = verifiers.get(name), torch_decisions(torch.Generator().manual_seed(1))
    uniforms = torch.rand(given.batch, 2, dtype=torch.float64)

    @torch.compile
    def compiled(tokens, draft, target, numbers):
        verdict = rule.verify(Drafts(tokens, draft, target), replayed_decisions(numbers))
        return verdict.num_accepted, verdict.next_token

    return {
        "eager": lambda: rule.verify(given, decisions),
        "compiled": lambda: compiled(given.tokens, given.draft_probs, given.target_probs, uniforms),
    }


def main():
    print(f"{hardware('cpu')}; L={LENGTH}, V={VOCAB:,}\n")
    print("| rule | B | how | ms a request | transformers, ms | transformers / ours |")
    print("| --- | --: | --- | --: | --: | --: |")
    for batch in BATCHES:
        given = drafts(batch, LENGTH, VOCAB, "cpu", torch.float32)
        for name in ("token", "block"):
            for how, call in ours(given, name).items():
                own, other = 1e3 * seconds(call, "cpu") / batch, 1e3 * seconds(theirs(given), "cpu")
                print(
                    f"| {name} | {batch} | {how} | {own:.2f} | {other:.2f} | {other / own:.1f} |", flush=True
                )


if __name__ == "__main__":
    main()
