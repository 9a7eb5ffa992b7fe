"""For tests/test_server.py of mlx-lm. Random weights suffice: no model is downloaded."""

import unittest
from functools import partial
from http.server import HTTPServer
from threading import Thread
from types import SimpleNamespace

import mlx.core as mx
import requests
from mlx.utils import tree_map
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mlx_lm.models.llama import Model, ModelArgs
from mlx_lm.server import APIHandler, LRUPromptCache, ResponseGenerator
from mlx_lm.tokenizer_utils import TokenizerWrapper

LETTERS = "abcdefghijklmnopqrstuvwx"
OPTIONS = {
    "chat_template_args": {},
    "num_draft_tokens": 2,
    "max_tokens": 16,
    "temp": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "decode_concurrency": 1,
    "prompt_concurrency": 1,
    "prefill_step_size": 512,
    "prompt_cache_size": 10,
    "prompt_cache_bytes": None,
    "allowed_origins": ["*"],
    "kv_bits": None,
    "kv_group_size": 64,
    "quantized_kv_start": 0,
    "model": "random",
}


def letter_tokenizer():
    vocab = {letter: i for i, letter in enumerate(LETTERS)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="a")
    return TokenizerWrapper(fast, eos_token_ids=[])


def random_model(noise=0.0):
    """The same random Llama every time, with `noise` in its weights, as a draft model has."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": len(LETTERS)}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "rms_norm_eps": 1e-5}
    model = Model(
        ModelArgs(model_type="llama", tie_word_embeddings=False, **sizes, **layers)
    )
    for seed, scale in ((0, 0.4), (1, noise)):
        mx.random.seed(seed)
        start = 0.0 if seed == 0 else 1.0
        noisy = lambda w: start * w + scale * mx.random.normal(w.shape)
        model.update(tree_map(noisy, model.parameters()))
    mx.eval(model.parameters())
    return model


class RandomModel:
    """Stands in for `ModelProvider`."""

    def __init__(self, draft_model):
        self.model, self.draft_model = random_model(), draft_model
        self.tokenizer = letter_tokenizer()
        self.model_key = ("random", None, None)
        self.is_batchable = draft_model is None
        self.cli_args = SimpleNamespace(**OPTIONS)

    def load_default(self):
        pass

    def reset(self):
        pass

    def load(self, *args):
        return self.model, self.tokenizer


class TestServerWithRandomModel(unittest.TestCase):
    def serve(self, draft_model=None):
        generator = ResponseGenerator(RandomModel(draft_model), LRUPromptCache())
        self.addCleanup(generator.stop_and_join)
        self.httpd = HTTPServer(("localhost", 0), partial(APIHandler, generator))
        self.addCleanup(self.httpd.server_close)
        Thread(target=self.httpd.serve_forever).start()
        self.addCleanup(self.httpd.shutdown)

    def complete(self, **options):
        url = f"http://localhost:{self.httpd.server_port}/v1/completions"
        body = {"model": "default_model", "prompt": "bcd", **options}
        return requests.post(url, json=body).json()["choices"][0]["text"]

    def test_prompt_cache_with_draft_model_keeps_greedy_completions(self):
        self.serve(draft_model=random_model(noise=0.1))
        answers = [self.complete(max_tokens=1, temperature=0.0) for _ in range(5)]
        self.assertEqual(answers, answers[:1] * 5)

    def test_seed_does_not_reach_later_requests(self):
        self.serve()
        answers = []
        for _ in range(4):
            self.complete(max_tokens=1, temperature=1.0, seed=7)
            answers.append(self.complete(max_tokens=16, temperature=1.0))
        self.assertEqual(len(set(answers)), 4, answers)


if __name__ == "__main__":
    unittest.main()
