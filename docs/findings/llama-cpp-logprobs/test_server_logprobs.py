"""For tests of xllamacpp, or of llama.cpp's server. The models are written down here: none is downloaded."""

import json
import math
import urllib.request

import gguf
import numpy as np
import pytest
import xllamacpp

VOCAB, WIDTH, INNER = 48, 32, 64
PROMPT = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]


def write_model(path, noise):
    """A random Llama of one layer; a draft model is the same with noise in its weights."""
    model, other = np.random.default_rng(1), np.random.default_rng(2)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("llama")
    letters = ["\u2581", "w", *"0123456789"]  # what stop strings are made of
    words = [*letters, *(f"\u2581w{i}" for i in range(3 + len(letters), VOCAB))]
    writer.add_token_list(["<unk>", "<s>", "</s>", *words])
    writer.add_token_scores([0.0] * VOCAB)
    writer.add_token_types([2, 3, 3, *[1] * (VOCAB - 3)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    sizes = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH)}
    sizes |= {"attn_output": (WIDTH, WIDTH), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH)}
    sizes |= {"ffn_down": (WIDTH, INNER)}
    sizes = {f"blk.0.{name}": size for name, size in sizes.items()}
    sizes |= {"token_embd": (VOCAB, WIDTH), "output": (VOCAB, WIDTH)}
    for name, size in sizes.items():
        weights = model.normal(size=size) + noise * other.normal(size=size)
        writer.add_tensor(f"{name}.weight", (0.3 * weights).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def served(folder, kind):
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.n_parallel, params.n_ctx = str(folder / "target.gguf"), 0, 1, 256
    params.warmup = params.fit_params = False
    kinds = xllamacpp.common_speculative_type
    params.speculative.types = [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{kind}")]
    if kind == "DRAFT_SIMPLE":
        params.speculative.draft.mparams.path = str(folder / "draft.gguf")
        params.speculative.draft.n_max = 3
    if kind == "NGRAM_SIMPLE":
        params.speculative.ngram_simple.size_n, params.speculative.ngram_simple.size_m = 2, 3
    return xllamacpp.Server(params)


def completed(server, prompt, count, **fields):
    body = {"prompt": prompt, "n_predict": count, "n_probs": 5, "return_tokens": True, "ignore_eos": True}
    request = urllib.request.Request(
        f"{server.listening_address}/completion",
        json.dumps({**body, **fields}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.mark.parametrize("kind", ["NONE", "DRAFT_SIMPLE", "NGRAM_SIMPLE"])
@pytest.mark.parametrize("name", ["logprob", "prob"], ids=["before-sampling", "after-sampling"])
def test_log_probabilities_with_speculation_are_those_without(tmp_path, kind, name):
    """Each token has the log-probability that a request for one token, which drafts nothing, reports of it."""
    write_model(tmp_path / "target.gguf", 0.0)
    write_model(tmp_path / "draft.gguf", 0.3)
    server = served(tmp_path, kind)
    how = {"temperature": 1.0, "top_k": 0, "min_p": 0.0, "seed": 3, "post_sampling_probs": name == "prob"}
    whole = completed(server, PROMPT, 24, **how)
    for place, entry in enumerate(whole["completion_probabilities"]):
        plain = completed(server, PROMPT + whole["tokens"][:place], 1, **how)
        (expected,) = plain["completion_probabilities"]
        tops = f"top_{name}s"
        listed = {one["id"]: one[name] for one in expected[tops]}
        if entry["id"] in listed:
            assert math.isclose(entry[name], listed[entry["id"]], abs_tol=1e-3), f"token {place + 1}"
        assert {one["id"] for one in entry[tops]} == set(listed), f"token {place + 1}"


def test_log_probabilities_end_where_the_text_ends(tmp_path):
    """A stop string inside a token takes away that token's log-probability, not those of tokens before it."""
    write_model(tmp_path / "target.gguf", 0.0)
    server = served(tmp_path, "NONE")
    how = {"temperature": 1.0, "top_k": 0, "min_p": 0.0, "seed": 3}
    whole = completed(server, PROMPT, 24, **how)
    tokens = whole["tokens"]
    # The number in the word of a token: by itself it is two or three tokens, here it is part of one.
    place = next(i for i in range(4, 24) if tokens[i] > 14 and tokens[i] not in tokens[:i])
    stopped = completed(server, PROMPT, 24, stop=[f"{tokens[place]}"], **how)
    assert stopped["stopping_word"] == f"{tokens[place]}"
    assert whole["content"].startswith(stopped["content"])
    assert len(stopped["completion_probabilities"]) in (place, place + 1)
