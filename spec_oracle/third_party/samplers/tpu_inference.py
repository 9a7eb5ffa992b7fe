"""tpu-inference: `tpu_inference.layers.jax.sample.rejection_sampler.rejection_sample`, JAX on the CPU."""

import torch

from spec_oracle.contracts import adapting as contract
from spec_oracle.contracts.adapting import Emission, Generator, Tensor, Verify
from spec_oracle.contracts.flat import flat
from spec_oracle.errors import EngineError
from spec_oracle.third_party.samplers.wheels import load_alone, wheel


def load(*, reads_draft: bool) -> Verify:
    """Return the token rule, or its point-mass form without draft distributions.

    Drafts int32 [B L], draft rows float32 [B L, V] or None, target rows float32 [B L, V], bonus int32 [B], an
    explicit key; returns int32 [B L + B]: the drafts' places, then the bonus column, padded with -1.
    """
    try:
        import jax
    except ImportError:
        raise EngineError('jax is not installed; pip install "jax[cpu]"') from None
    folder = wheel("tpu-inference").fetched_folder()
    module = load_alone("tpu_inference.layers.jax.sample.rejection_sampler", folder)
    compiled = jax.jit(module.rejection_sample, static_argnames="do_sampling")

    def rows(values: Tensor) -> Tensor:
        return values.to(torch.float32).numpy()

    def verify(tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None) -> Emission:
        batch = flat(tokens, draft, target)
        with contract.drawing_from(generator):
            key, bonus = contract.fresh_seed(torch.default_generator), batch.sample_bonus()
        output = compiled(
            batch.tokens.to(torch.int32).numpy(),
            batch.lengths.to(torch.int32).numpy(),
            rows(batch.draft_probs) if reads_draft else None,
            rows(batch.target_probs),
            bonus[:, 0].to(torch.int32).numpy(),
            do_sampling=True,
            key=jax.random.key(key % 2**32),
        )
        laid = torch.tensor(output.tolist(), dtype=torch.int64)
        drafted, last = laid.split((len(batch.tokens), len(tokens)))
        return contract.from_padded(torch.cat([drafted.reshape(tokens.shape), last[:, None]], dim=1))

    return verify
