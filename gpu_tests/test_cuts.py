"""Cuts of language models: the cached tree against passes without a cache, the cut network, SmolLM2."""

import json

import numpy as np
import pytest
import torch

import verifiers
from gpu_tests.tiny import assert_law, plain_text_law, tiny_model
from spec_oracle.cli import main
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.language_models import Truncation, first_layers, load_language_model
from spec_oracle.language_models.cuts import language_model_tree
from spec_oracle.language_models.decoding import decode

PROMPT = [1, 2, 0]


@pytest.mark.parametrize("shortlist", ["target", "union"])
def test_the_whole_tree_is_the_plain_law_of_the_text(shortlist, device):
    vocab, depth = 4, 2
    target, draft = tiny_model(1, vocab=vocab, device=device), tiny_model(2, vocab=vocab, device=device)
    tree = language_model_tree(target, draft, PROMPT, top_k=vocab, depth=depth, shortlist=shortlist)
    texts = [*np.ndindex(*(vocab,) * (depth + 1))]
    plain_target = plain_text_law(target, PROMPT, depth + 1)
    plain_draft = plain_text_law(draft, PROMPT, depth)
    # Tokens have other numbers in the tree: texts are told by their probabilities.
    found = sorted((tree.target.probability(text), tree.draft.probability(text[:depth])) for text in texts)
    expected = sorted((plain_target[text], plain_draft[text[:depth]]) for text in texts)
    assert np.array(found) == pytest.approx(np.array(expected), abs=1e-6)


def test_the_union_keeps_each_models_own_top_k(device):
    models = [tiny_model(seed, vocab=9, device=device) for seed in (1, 2)]
    instance = language_model_tree(*models, PROMPT, top_k=2, depth=1, shortlist="union")
    assert instance.vocab_size == 4
    for model in (instance.target, instance.draft):
        assert ((model.levels[0] > 0).sum(axis=1) == 2).all()


def test_a_cut_network_is_the_network_without_its_last_layers(device):
    network = tiny_model(1, device=device).network
    ids = torch.tensor([PROMPT], device=device)
    cut = first_layers(network, 1)
    with torch.inference_mode():
        hidden = network(ids, output_hidden_states=True).hidden_states[1]
        expected = network.lm_head(network.base_model.norm(hidden))
        torch.testing.assert_close(cut(ids).logits, expected)
    assert len(network.base_model.layers) == 2
    with pytest.raises(InvalidInputError, match=r"layers: expected 1\.\.2"):
        first_layers(network, 3)


def test_truncation_keeps_top_k_and_top_p():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert Truncation(top_k=2).probabilities(logits).tolist() == pytest.approx([0.625, 0.375, 0, 0])
    assert Truncation(top_p=0.6).probabilities(logits).tolist() == pytest.approx([0.625, 0.375, 0, 0])
    assert Truncation(top_p=0.1).probabilities(logits).tolist() == [1, 0, 0, 0]
    sharp = Truncation(temperature=0.5).probabilities(logits)
    assert sharp[0] / sharp[1] == pytest.approx((5 / 3) ** 2)
    for wrong in ({"temperature": 0}, {"top_k": -1}, {"top_p": 1.5}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            Truncation(**wrong)


@pytest.mark.parametrize("spec", ["x:layers=y", "x:colour=1", "x:temperature=-1", "x:dtype=i4"])
def test_unknown_model_specs_are_refused(spec):
    with pytest.raises(InvalidInputError, match="x:"):
        load_language_model(spec)


@pytest.mark.lm
def test_smollm2_is_lossless_and_the_loop_agrees_with_its_enumeration(device):
    """400 first calls, in batches that fit in memory: their rows have 49,152 tokens.

    The G test at 1e-9 finds lengths whose law is 0.3 off. Hoeffding at 1e-9 on E[tau | drafts] in 0..L.
    """
    target, draft = (load_language_model(spec, device=device) for spec in ("smollm2", "smollm2:layers=20"))
    prompt, length, batch, batches = target.encode("The capital of France is"), 2, 100, 4
    sizes = {"top_k": 2, "depth": length, "num_paths": 2}
    instance = language_model_tree(target, draft, prompt, **sizes, shortlist="union")
    laws = {
        name: emission_law(verifiers.get(name), instance)
        for name in ("token", "block", "traversal", "greedy_multipath_block")
    }
    assert all(law.total_variation < 1e-10 for law in laws.values())
    name = "greedy_multipath_block"
    generator = torch.Generator(device).manual_seed(1)
    options = {"draft_length": length, "num_paths": 2, "generator": generator, "expectations": True}
    options |= {"max_new_tokens": 1, "truncation": Truncation(top_k=2)}
    runs = [decode(verifiers.get(name), target, draft, [prompt] * batch, **options) for _ in range(batches)]
    lengths = np.concatenate([run.accepted_lengths for run in runs])
    pmf = np.array(laws[name].accepted_length_pmf)
    assert_law(np.bincount(lengths, minlength=length + 1), pmf, alpha=1e-9, detect_tv=0.3)
    margin = length * np.sqrt(np.log(2 / 1e-9) / (2 * batch * batches))
    mean = np.mean([run.conditional_block_efficiency for run in runs])
    assert abs(mean - laws[name].block_efficiency) < margin


@pytest.mark.lm
def test_the_command_line_cuts_and_tabulates_smollm2(tmp_path, capsys):
    prompts, table = tmp_path / "prompts.txt", tmp_path / "table.json"
    prompts.write_text("Water boils at\n\nOnce upon a time\n")
    sizes = ["--top-k", "3", "--depth", "2"]
    arguments = ["efficiency", "--prompts", str(prompts), *sizes]
    arguments += ["--verifier", "block", "--jobs", "1", "--format", "json"]
    assert main([*arguments, "--output", str(table), "--plot", str(tmp_path / "plot.svg")]) == 0
    rows = json.loads(table.read_text())
    assert len(rows) == 2
    assert all(row["block_efficiency"] <= row["optimum"] + 1e-9 for row in rows)
    assert all(row["total_variation"] < 1e-10 for row in rows)
    assert (tmp_path / "plot.svg").stat().st_size > 0
    capsys.readouterr()
    assert main(["instance", "lm", "--prompt", "Water boils at", *sizes]) == 0
    assert json.loads(capsys.readouterr().out)["vocab_size"] == 3
