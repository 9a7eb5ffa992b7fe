"""lmdeploy: `DefaultRejectionSamplingImpl`, the portable torch backend."""

from spec_oracle.contracts import adapting as contract
from spec_oracle.contracts.adapting import Emission, Generator, Tensor, Verify
from spec_oracle.third_party.samplers.wheels import load_alone, wheel


def load(*, reads_draft: bool) -> Verify:
    """Return the token rule, or its point-mass form without draft distributions.

    Target logits [B, L, V], draft rows [B, L, V] or None, bonus int64 [B]; float64 uniforms, one exponential
    noise row per request.
    """
    folder = wheel("lmdeploy").fetched_folder()
    module = load_alone("lmdeploy.pytorch.backends.default.rejection_sampling", folder)
    sampler = module.DefaultRejectionSamplingImpl()

    def verify(
        tokens: Tensor,
        draft: Tensor,
        target: Tensor,
        generator: Generator = None,
        *,
        is_greedy: Tensor | None = None,
    ) -> Emission:
        with contract.drawing_from(generator):
            output, _num_rejected, _last = sampler.forward(
                contract.logits_of(target[:, :-1]),
                tokens,
                contract.sample_bonus(target[:, -1], is_greedy)[:, 0],
                is_greedy=is_greedy,
                draft_probs=draft if reads_draft else None,
            )
        return contract.from_padded(output)

    return verify
