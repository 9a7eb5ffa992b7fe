"""Instances cut out of a pair of language models: real distributions, few enough tokens to be enumerated.

An instance has one vocabulary of V tokens for all contexts; a language model has tens of thousands. So in
every context of the tree V tokens are chosen, both models' laws are restricted to them, and they are numbered
0..V-1 by their mass under both, likeliest first (after the last drafted token, by the target's). A number
therefore means another token in every context. Two choices of the tokens are offered:

* ``shortlist="target"``: the target's top k, V = k. Both models are restricted to that set and renormalised,
  as if one top-k mask were shared. A kindness to the draft: it never proposes a token the target has dropped.
* ``shortlist="union"``: each model is cut to its *own* top k, and V = 2k slots hold the union (the rest of
  them have mass zero in both). This is what an engine does that applies top-k to each model, and what
  `spec_oracle.language_models.decoding` does.

Nothing else is approximated: the instance is the exact pair of those truncated laws on the whole tree of
depth L, in float64 softmaxes of the network's logits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from spec_oracle.errors import InvalidInputError
from spec_oracle.language_models import CachedModel, LanguageModel, Truncation, load_language_model
from spec_oracle.toy.instance import Instance
from spec_oracle.toy.model import ToyModel
from spec_oracle.validation import require_whole

if TYPE_CHECKING:
    import torch

Tensor: TypeAlias = "torch.Tensor"

SHORTLISTS = ("target", "union")


def cut_instance(prompt: str, *, target: str, draft: str, device: str = "cpu", **sizes: Any) -> Instance:
    """Return the tree after ``prompt`` of two models named as in `load_language_model`, once loaded."""
    model = load_language_model(target, device=device)
    drafter = load_language_model(draft, device=device)
    return language_model_tree(model, drafter, model.encode(prompt), **sizes)


def language_model_tree(
    target: LanguageModel,
    draft: LanguageModel,
    prompt: Sequence[int],
    *,
    top_k: int,
    depth: int,
    temperature: float = 1.0,
    num_paths: int = 1,
    shortlist: str = "target",
    after_paths: bool = True,
) -> Instance:
    """Evaluate both models after ``prompt`` (token ids) on the whole tree of ``depth`` tokens.

    Costs one pass of the prompt and sum V^d tokens, d = 1..depth for the target, one level less for the
    draft. Tokens per call do not depend on the target's rows after whole paths: without ``after_paths`` the
    target is evaluated one level less too, and the instance has other rows there. Raises `InvalidInputError`
    for sizes out of range and models with different vocabularies.
    """
    if shortlist not in SHORTLISTS:
        raise InvalidInputError(f"shortlist: expected one of {', '.join(SHORTLISTS)}, got {shortlist!r}")
    require_whole(depth, "depth")
    require_whole(top_k, "top_k")
    if not prompt:
        raise InvalidInputError("prompt: expected at least one token, got none")
    cut = Truncation(temperature=temperature, top_k=top_k)
    target_texts, draft_texts = CachedModel(target, [prompt]), CachedModel(draft, [prompt])
    target_logits, draft_logits = (
        texts.read(texts.unread[:, :0])[:, -1] for texts in (target_texts, draft_texts)
    )
    if target_logits.shape != draft_logits.shape:
        raise InvalidInputError(
            f"draft: has {draft_logits.shape[-1]} tokens, the target {target_logits.shape[-1]}"
        )
    targets, drafts = [], []
    levels = depth + after_paths
    for level in range(levels):
        # Nothing is drafted after the last level, which has most of the texts: the draft never reads it.
        drafted = draft_logits if level < depth else target_logits
        p, q, names = _rows(target_logits, drafted, cut, shortlist)
        targets.append(p.cpu().numpy())
        if level < depth:
            drafts.append(q.cpu().numpy())
        if level < levels - 1:
            target_logits = _extended(target_texts, names)
        if level < depth - 1:
            draft_logits = _extended(draft_texts, names)
    models = ToyModel.from_levels(targets, name="target"), ToyModel.from_levels(drafts, name="draft")
    return Instance(*models, depth, num_paths)


def _rows(target: Tensor, draft: Tensor, cut: Truncation, shortlist: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return both distributions on the chosen tokens, and the tokens, [N, V], from logits [N, vocabulary]."""
    size = min(cut.top_k, target.shape[-1])
    p = cut.probabilities(target)
    if shortlist == "target":
        # The draft gets the target's mask: in the logits, so that no row can come out as all zeros.
        q = cut.probabilities(draft.masked_fill(p == 0, -float("inf")))
    else:
        q = cut.probabilities(draft)
        size = min(2 * size, target.shape[-1])
    names = (p + q).topk(size, dim=-1).indices
    return p.gather(-1, names), q.gather(-1, names), names


def _extended(texts: CachedModel, names: Tensor) -> Tensor:
    """Go one level down: text n is followed by each of ``names[n]``, int [N, V]; return the logits."""
    import torch

    texts.select(torch.arange(len(names), device=names.device).repeat_interleave(names.shape[1]))
    return texts.read(names.reshape(-1, 1))[:, -1]
