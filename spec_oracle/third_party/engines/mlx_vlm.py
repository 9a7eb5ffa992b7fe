"""mlx-vlm's speculative decoding as an engine: a small random Gemma 4 with each kind of drafter.

mlx-vlm accepts a draft if it equals the sample of the target. As in `mlx_lm`, the sampler is ours, so that
the distribution of the rest can be enumerated.
"""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.third_party.engines import Ids
from spec_oracle.third_party.engines.mlx_lm import (
    VOCAB,
    Logits,
    Processor,
    Sampler,
    draw,
    emitting,
    law,
    randomised,
)

if TYPE_CHECKING:
    from mlx.nn import Module
    from mlx_vlm.models.gemma4.config import TextConfig

LAYERS, HIDDEN = 3, 8
_HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4}
_SIZES = {"hidden_size": HIDDEN, "intermediate_size": 8, "vocab_size": VOCAB, **_HEADS}


def _text(layers: int) -> "TextConfig":
    """Return the configuration of a small Gemma 4 without images."""
    from mlx_vlm.models.gemma4.config import TextConfig

    own = {"global_head_dim": 4, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0}
    types = {"num_hidden_layers": layers, "layer_types": ["full_attention"] * layers}
    return TextConfig(**_SIZES, **own, **types, use_double_wide_mlp=False)


def _target() -> "Module":
    from mlx_vlm.models.gemma4 import Model, ModelConfig
    from mlx_vlm.models.gemma4.config import VisionConfig

    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8, "global_head_dim": 8}
    vision = VisionConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, **heads)
    return randomised(Model(ModelConfig(_text(LAYERS), vision, vocab_size=VOCAB)), 1, 1.0)


def _dflash(**_: int) -> "Module":
    from mlx_vlm.speculative.drafters.qwen3_dflash.config import DFlashConfig
    from mlx_vlm.speculative.drafters.qwen3_dflash.dflash import DFlashDraftModel

    layers = {"num_hidden_layers": 1, "target_layer_ids": [0, 2], "num_target_layers": LAYERS}
    return DFlashDraftModel(DFlashConfig(**_SIZES, **layers, mask_token_id=0))


def _eagle3(draft_vocab: int = VOCAB) -> "Module":
    from mlx_vlm.speculative.drafters.eagle3.config import Eagle3Config
    from mlx_vlm.speculative.drafters.eagle3.eagle3 import Eagle3DraftModel

    ids = [*range(LAYERS)]
    layer = {**_SIZES, "num_hidden_layers": 1}
    return Eagle3DraftModel(
        Eagle3Config(
            transformer_layer_config=layer,
            draft_vocab_size=draft_vocab,
            target_layer_ids=ids,
            capture_layer_ids=ids,
        )
    )


def _mtp(**_: int) -> "Module":
    from mlx_vlm.speculative.drafters.gemma4_assistant.config import Gemma4AssistantConfig
    from mlx_vlm.speculative.drafters.gemma4_assistant.gemma4_assistant import Gemma4AssistantDraftModel

    return Gemma4AssistantDraftModel(Gemma4AssistantConfig(backbone_hidden_size=HIDDEN, text_config=_text(1)))


_DRAFTERS: dict[str, Callable[..., "Module"]] = {"dflash": _dflash, "eagle3": _eagle3, "mtp": _mtp}


class MlxVlmEngine:
    """`generate_step` with one kind of drafter and some logits processors; it keeps the engine contract."""

    vocab_size = VOCAB
    prompts = ((1,), (0, 1))

    def __init__(
        self, kind: str, draft_length: int = 1, processors: Sequence[Processor] = (), **drafter: int
    ) -> None:
        self.model, self.draft = _target(), randomised(_DRAFTERS[kind](**drafter), 2, 1.0)
        self.how = {"draft_model": self.draft, "draft_kind": kind, "draft_block_size": draft_length + 1}
        self.processors = [*processors]
        self.drafted = self.accepted = 0

    def __deepcopy__(self, memo: object) -> "MlxVlmEngine":
        """Share the models: the drafter is reset, and caches are new, for every completion."""
        return copy.copy(self)

    def next_token_probs(self, context: Ids) -> Floats:
        """Return the distribution of the next token of target-only decoding, [V].

        Penalties count the tokens behind the prompt, so that a context begins with one of ``prompts``.
        """
        known = (one for one in self.prompts if tuple(context[: len(one)]) == one)
        prompt = next(known, tuple(context))
        row: Floats = self.rows_along(prompt, (*context[len(prompt) :], 0))[-1]
        return row

    def rows_along(self, prompt: Ids, completion: Ids) -> Floats:
        """Return the distributions of target-only decoding whose samples are these tokens, [T, V]."""
        seen: list[Logits] = []
        list(self._tokens(prompt, len(completion), emitting(completion, seen)))
        return np.concatenate([law(logprobs) for logprobs in seen[: len(completion)]])

    def generate(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        return [token for emitted in self.steps(prompt, max_new_tokens, seed) for token in emitted]

    def steps(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> Iterator[list[int]]:
        """Decode speculatively; yield what each call emits: the first, over the prompt, drafts nothing."""
        if seed is not None:
            random.seed(seed)
        self.draft.accept_lens, self.draft.draft_lens = [], []
        emitted: list[int] = []
        calls = 0
        for token in self._tokens(prompt, max_new_tokens, draw, **self.how):
            if len(self.draft.accept_lens) > calls:
                yield emitted
                emitted, calls = [], calls + 1
            emitted.append(token)
            self.drafted, self.accepted = sum(self.draft.draft_lens), sum(self.draft.accept_lens)
        yield emitted

    def generate_plain(self, prompt: Ids, max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode without a drafter."""
        if seed is not None:
            random.seed(seed)
        return [*self._tokens(prompt, max_new_tokens, draw)]

    def _tokens(self, prompt: Ids, count: int, sampler: Sampler, **how: object) -> Iterator[int]:
        import mlx.core as mx
        from mlx_vlm.generate import generate_step

        how |= {"max_tokens": count, "sampler": sampler, "logits_processors": self.processors or None}
        for token, _ in generate_step(mx.array([prompt]), self.model, None, None, **how):
            yield int(token)


def engines() -> dict[str, MlxVlmEngine]:
    """Return engines by the kind of their drafter."""
    return {
        "DFlash": MlxVlmEngine("dflash"),
        "DFlash, drafts of two": MlxVlmEngine("dflash", 2),
        "MTP": MlxVlmEngine("mtp"),
        "EAGLE-3": MlxVlmEngine("eagle3"),
    }


def eagle3() -> dict[str, MlxVlmEngine]:
    """Return EAGLE-3 with a drafter that knows two of three tokens."""
    return {"two of three tokens": MlxVlmEngine("eagle3", draft_vocab=2)}


def processors() -> dict[str, MlxVlmEngine]:
    """Return engines by a logits processor."""
    from mlx_vlm.sample_utils import make_logits_processors

    return {
        "bias": MlxVlmEngine("dflash", 1, make_logits_processors(logit_bias={1: -1.5})),
        "penalty": MlxVlmEngine("dflash", 1, make_logits_processors(presence_penalty=1.0)),
    }
