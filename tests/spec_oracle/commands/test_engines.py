"""Functions with the signatures of engines: `init` names every parameter, and the adapter can be audited.

Each is a right rule of our own in the folder `engines`, whose adapter is found lossless, and found lossy once
a defect is planted in the rule. No random numbers are sampled: all outcomes are traced.
"""

import re
import shutil
from pathlib import Path

import pytest

from spec_oracle.audit import AuditOptions, audit
from spec_oracle.audit.instances import panel
from spec_oracle.cli import main
from spec_oracle.gate.configuration import find_configuration
from tests.strategies import by_day

pytest.importorskip("torch")

FLAT = "flat tensors, requests end to end; torch"
PADDED = "padded tensors; torch"
ONE = "one request at a time; torch"
TREE = "a draft tree for each request; torch"
CHAIN = "a chain for each request, given as a tree; torch"
SAMPLING = "an object with the attributes that are read: all_random, temperature, generators"
SIGNATURES = {
    "vllm_like:rejection_sample": (
        FLAT,
        {
            "draft_token_ids": "drafted tokens: batch.tokens",
            "num_draft_tokens": "drafted tokens of each request: batch.lengths.tolist()",
            "max_spec_len": "longest draft: batch.max_length",
            "cu_num_draft_tokens": "cumulative lengths: batch.ends",
            "draft_probs": "draft probabilities: batch.draft_probs",
            "target_logits": "target logits: logits_of(batch.target_probs)",
            "bonus_token_ids": "bonus token: batch.sample_bonus()",
            "sampling_metadata": SAMPLING,
            "returns": "from_padded(output)",
        },
    ),
    "vllm_like:OldRejectionSampler": (
        FLAT,
        {
            "metadata": "an object with the attributes that are read: draft_token_ids, num_draft_tokens, "
            "max_spec_len, cu_num_draft_tokens",
            "draft_probs": "draft probabilities: batch.draft_probs",
            "target_logits": "target logits: logits_of(batch.target_probs)",
            "bonus_token_ids": "bonus token: batch.sample_bonus()",
            "sampling_metadata": SAMPLING,
            "returns": "from_padded(output)",
        },
    ),
    "vllm_like:RejectionSampler": (
        FLAT,
        {
            "metadata": "an object with the attributes that are read: bonus_logits_indices, "
            "target_logits_indices, draft_token_ids, num_draft_tokens, max_spec_len, cu_num_draft_tokens",
            "draft_probs": "draft probabilities: batch.draft_probs",
            "logits": "target logits: logits_of(batch.all_target_probs)",
            "sampling_metadata": SAMPLING,
            "sampler": "of the constructor, not known: TODO",
            "returns": "from_padded(output.sampled_token_ids)",
        },
    ),
    "sglang_like:tree_speculative_sampling_target_only": (
        TREE,
        {
            "predicts": "written: next token: torch.full((places.numel(),), -1, dtype=torch.int32)",
            "accept_index": "written: accepted places of the tree: "
            "torch.full(places.shape, -1, dtype=torch.int32)",
            "accept_token_num": "written: number of accepted tokens: "
            "torch.zeros(len(places), dtype=torch.int32)",
            "candidates": "the token before the draft, then the draft: places",
            "retrive_index": "places of the tree: torch.arange(places.numel()).reshape(places.shape)",
            "retrive_next_token": "first child of each place: first_child(parents)",
            "retrive_next_sibling": "next sibling of each place: next_sibling(parents)",
            "uniform_samples": "uniforms: "
            "torch.rand(tokens.shape[0], tokens.shape[1] + 1, generator=generator)",
            "uniform_samples_for_final_sampling": "uniforms: torch.rand(len(tokens), generator=generator)",
            "target_probs": "target probabilities: target_probs",
            "draft_probs": "written: probabilities of rejected tokens: torch.zeros_like(target_probs)",
            "threshold_single": "left at its default",
            "threshold_acc": "left at its default",
            "deterministic": "left at its default",
            "returns": "from_lengths(predicts[accept_index.long()], accept_token_num)",
        },
    ),
    "sglang_like:chain_speculative_sampling": (
        CHAIN,
        {
            "retrieve_next_token": "first child of each place: "
            "torch.nn.functional.pad(torch.arange(1, places.shape[1]), (0, 1), value=-1)"
            ".repeat(len(places), 1)",
            "retrieve_next_sibling": "next sibling of each place: torch.full_like(places, -1)",
            "retrieve_index": "places of the tree: torch.arange(places.numel()).reshape(places.shape)",
            "uniform_samples": "uniforms: uniforms",
            "draft_probs": "draft probabilities: draft_probs",
            "threshold_single": "acceptance threshold, 1 for none: 1.0",
            "threshold_acc": "acceptance threshold, 1 for none: 1.0",
            "deterministic": "left at its default",
        },
    ),
    "trees_like:verify_by_parents": (
        TREE,
        {
            "draft_token_ids": "drafted tokens: tokens",
            "parent_indices": "parent of each drafted token: parents_with_root(parents)",
            "draft_probs": "draft probabilities: draft_probs",
            "target_logits": "target logits: logits_of(target_probs)",
            "generator": "generator: generator",
            "returns": "from_node(tokens, parents, output[0], output[1])",
        },
    ),
    "trees_like:verify_by_mask": (
        TREE,
        {
            "candidates": "the token before the draft, then the draft: places",
            "tree_mask": "the ancestors of each place, and itself: the mask of a tree: ancestors(parents)",
            "target_probs": "target probabilities: target_probs",
            "returns": "from_lengths(output[0], output[1])",
        },
    ),
    "tensorrt_llm_like:rejection_sampling_one_model": (
        PADDED,
        {
            "draft_probs": "draft probabilities: draft_probs",
            "draft_token_ids": "drafted tokens: draft_tokens",
            "target_probs": "target probabilities: target_probs",
            **dict.fromkeys(("deterministic", "seed", "offset"), "left at its default"),
            "returns": "from_lengths(output[0], output[1] - 1)",
        },
    ),
    "tensorrt_llm_like:get_rejected_indices": (
        ONE,
        {
            "draft_probs": "draft probabilities: draft_probs",
            "target_probs": "target probabilities: target_probs",
            "generator": "generator: generator",
            "draft_tokens": "drafted tokens: draft_tokens.tolist()",
            "returns": "not known: TODO",
        },
    ),
    "lmdeploy_like:RejectionSampling": (
        PADDED,
        {
            "target_logits": "target logits: logits_of(target_probs[:, :-1])",
            "draft_token_ids": "drafted tokens: draft_tokens",
            "bonus_token_ids": "bonus token: sample_bonus(target_probs[:, -1])[:, 0]",
            "is_greedy": "greedy requests: is_greedy",
            "draft_probs": "draft probabilities: draft_probs",
            "returns": "from_lengths(output[0], draft_tokens.shape[1] - output[1])",
        },
    ),
    "lmdeploy_like:RejectionSampler": (
        PADDED,
        {
            "target_logits": "target logits: logits_of(target_probs)",
            "draft_token_ids": "drafted tokens: draft_tokens",
            "expanded_sampling_inputs": "an object with the attributes that are read: max_top_k, "
            "select_sampling_rows (TODO)",
        },
    ),
    "one_request:verify_draft": (
        ONE,
        {
            "draft_tokens": "drafted tokens: draft_tokens",
            "draft_probs": "draft probabilities: draft_probs",
            "target_probs": "target probabilities: target_probs",
            "temperature": "temperature, 0 for greedy requests: 1.0",
            "generator": "generator: generator",
            "returns": "[*draft_tokens[:output[0]], output[1]]",
        },
    ),
    "one_request:speculative_step": (
        "one request at a time; numpy",
        {
            "x": "drafted tokens: draft_tokens",
            "q": "draft probabilities: draft_probs",
            "p": "target probabilities: target_probs",
            "rng": "generator: generator",
            "returns": "output",
        },
    ),
    "one_request:accept": (
        ONE,
        {
            "draft_ids": "drafted tokens: draft_tokens.tolist()",
            "draft_logits": "draft logits: logits_of(draft_probs)",
            "target_logits": "target logits: logits_of(target_probs)",
            "returns": "[*output[0], output[1]]",
        },
    ),
    "one_request:assisted": (
        "one request at a time, as a batch of one; torch",
        {
            "candidate_input_ids": "drafted tokens: draft_tokens",
            "candidate_logits": "draft logits: logits_of(draft_probs)",
            "new_logits": "target logits: logits_of(target_probs)",
            "returns": "output[0][0][: output[1] + 1]",
        },
    ),
}
"""What is printed for each parameter."""

DEFECTS = {
    "vllm_like:rejection_sample": ("(target - draft_probs).clamp(min=0) / noise", "target / noise"),
    "vllm_like:OldRejectionSampler": ("uniform * draft_probs[token", "uniform**2 * draft_probs[token"),
    "vllm_like:RejectionSampler": ("logits[metadata.bonus_logits_indices]", "logits[: len(draft_probs)]"),
    "sglang_like:tree_speculative_sampling_target_only": (
        "torch.where(exists & ~accepts",
        "torch.where(~exists",
    ),
    "sglang_like:chain_speculative_sampling": ("edges = residual[", "edges = target_probs["),
    "trees_like:verify_by_parents": ("rows = target[node]", "rows = target[depth]"),
    "trees_like:verify_by_mask": ("is_child = depth ==", "is_child = depth >="),
    "tensorrt_llm_like:rejection_sampling_one_model": (
        "accepts = torch.rand(",
        "accepts = 0.5 * torch.rand(",
    ),
    "lmdeploy_like:RejectionSampling": ("torch.rand(batch, length)", "torch.rand(batch, length) ** 2"),
    "one_request:verify_draft": ("if num_accepted < len(draft_tokens):", "if num_accepted < 0:"),
    "one_request:speculative_step": ("np.maximum(p[i] - q[i], 0)", "np.maximum(p[i], 0)"),
    "one_request:accept": ("torch.multinomial(p[-1], 1)", "torch.multinomial(p[0], 1)"),
    "one_request:assisted": ("(p_next - q[:, n_matches])", "p_next"),
}
"""The functions whose adapters can be audited, and a defect of each."""

OF_DAY = (
    *("vllm_like:rejection_sample", "vllm_like:RejectionSampler", "sglang_like:chain_speculative_sampling"),
    *("trees_like:verify_by_parents", "lmdeploy_like:RejectionSampling", "one_request:verify_draft"),
    "one_request:assisted",
)
"""One of each layout, and one with an object that is filled in by hand."""


@pytest.fixture(autouse=True)
def _engines(folder):
    for file in (Path(__file__).parent / "engines").glob("*.py"):
        shutil.copy(file, folder)


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_parameter_is_named_in_print_and_in_the_adapter(folder, capsys, name):
    assert main(["init", name]) == 0
    shown = capsys.readouterr().out
    layout, expected = SIGNATURES[name]
    assert shown.startswith(f"{name}: {layout}\n")
    said = dict(re.findall(r"^  (\w+) +(.*)$", shown, re.MULTILINE))
    assert {parameter: said[parameter] for parameter in expected} == expected
    (adapter,) = folder.glob("*_adapter.py")
    text = adapter.read_text()
    compile(text, adapter.name, "exec")
    for parameter in said.keys() - {"returns"}:
        kept = rf"# left at their defaults:.*\b{parameter}\b"
        assert re.search(rf"\b{parameter}=.*# \w|{kept}|{parameter}=None\)  # TODO", text)
    is_whole = "TODO" not in text
    assert is_whole == ("TODO" not in shown and layout != TREE)
    assert is_whole == shown.endswith("\nnext: spec-oracle audit\n")


@pytest.mark.parametrize("name", by_day(DEFECTS, OF_DAY))
@pytest.mark.parametrize("verdict", ["lossless", "lossy"])
def test_the_adapter_is_audited(folder, name, verdict):
    file = folder / f"{name.partition(':')[0]}.py"
    if verdict == "lossy":
        right, wrong = DEFECTS[name]
        assert right in file.read_text()
        file.write_text(file.read_text().replace(right, wrong))
    assert main(["init", name]) == 0
    (adapter,) = folder.glob("*_adapter.py")
    filled = adapter.read_text().replace(
        "RejectionSampler(sampler=None)  # TODO",
        "RejectionSampler(lambda logits, sampling_metadata: torch.multinomial(logits.softmax(-1), 1))",
    )
    filled = re.sub(r'\{"\w+"\}  # TODO: how does your drafter .*', '{"distinct"}', filled)
    assert "TODO" not in filled
    adapter.write_text(filled)
    found, (layout, _) = find_configuration(folder), SIGNATURES[name]
    sizes, budget = ((2, 2), 1.0) if layout == TREE else ((3, 1), 20.0)
    instances = {"reversed": panel(*sizes, 1, 0)["reversed"]}
    options = AuditOptions(
        checks=(), budget=budget, instances=instances, shrink=False, array=found.options["array"]
    )
    first, *_ = audit(found.subjects[0], options=options).subjects
    assert first.verdict == verdict
    assert first.evidence == "exact"
