"""tpu-inference: `tpu_inference.layers.jax.sample.rejection_sampler.rejection_sample`, JAX on the CPU."""

import torch

from spec_oracle.adapters.errors import EngineError
from spec_oracle.adapters.samplers import contract
from spec_oracle.adapters.samplers.contract import Emission, Generator, Tensor, Verify
from spec_oracle.adapters.samplers.stand_ins import load_alone
from spec_oracle.adapters.samplers.wheels import wheel


def load(*, reads_draft: bool) -> Verify:
    """Return the token rule, or its point-mass form when the draft rows are withheld.

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
        return values.to(torch.float32).reshape(-1, values.shape[-1]).numpy()

    def verify(tokens: Tensor, draft: Tensor, target: Tensor, generator: Generator = None) -> Emission:
        batch, length = tokens.shape
        with contract.drawing_from(generator):
            key, bonus = contract.fresh_seed(torch.default_generator), contract.draw_bonus(target[:, -1])
        output = compiled(
            tokens.to(torch.int32).reshape(-1).numpy(),
            torch.full((batch,), length, dtype=torch.int32).numpy(),
            rows(draft) if reads_draft else None,
            rows(target[:, :-1]),
            bonus[:, 0].to(torch.int32).numpy(),
            do_sampling=True,
            key=jax.random.key(key % 2**32),
        )
        flat = torch.tensor(output.tolist(), dtype=torch.int64)
        main, last = flat[:-batch].reshape(batch, length), flat[-batch:, None]
        return contract.counted(torch.cat([main, last], dim=1))

    return verify
