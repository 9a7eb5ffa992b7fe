"""mlx_lm.server: its prompt cache makes it lossy with a draft model, and a seed outlives its request.

See docs/findings/mlx-lm-server-prompt-cache.md. Chances are those of the audit: a false alarm 1e-6, a miss
1e-3.
"""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import httpx
import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.client.client import Client
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import Ask
from tests.spec_oracle.servers.checks.results import result_of

pytestmark = pytest.mark.servers

TOKENS = ("<unk>", "</s>", *"abcdefghijklmnopqrstuv")


def write_model(folder, *, noise=0.0):
    """Write a random Llama over letters; ``noise`` is how far its weights are from those without."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(TOKENS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    names = {"eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    sizes = {"vocab_size": len(TOKENS), "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        model = LlamaForCausalLM(
            LlamaConfig(**sizes, initializer_range=0.2, eos_token_id=1, bos_token_id=None)
        )
        for weights in model.parameters():
            weights.add_(torch.randn(weights.shape), alpha=noise * 0.2)
    model.save_pretrained(folder)
    return str(folder)


@contextmanager
def serving(*options):
    """Yield the address of an mlx_lm.server; it names its models only beside a folder of downloads."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlx_lm", "server", "--port", str(port), *options]
    cache = TemporaryDirectory()
    process = subprocess.Popen(
        command,
        env={**os.environ, "HF_HUB_CACHE": cache.name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            time.sleep(0.1)
            try:
                httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False)
                break
            except httpx.TransportError:
                assert process.poll() is None
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
        cache.cleanup()


@contextmanager
def connected(*options):
    with serving(*options) as url, Client(url) as client:
        yield connect(client, Sampling(top_k=3), prompts=["bcd", "efg"])


@pytest.mark.parametrize(
    ("options", "status"),
    [([], Status.FAILED), (["--prompt-cache-size", "0"], Status.PASSED)],
    ids=["cache", "no cache"],
)
def test_with_a_draft_model_the_prompt_cache_changes_the_law(options, status, tmp_path):
    target = ("--model", write_model(tmp_path / "target"))
    draft = ("--draft-model", write_model(tmp_path / "draft", noise=0.3))
    with connected(*target, *draft, *options) as served, connected(*target) as reference:
        plan = ServerPlan(detect=0.25, assume_speculating=True)
        subject = ServerSubject("mlx-lm", served, plan, reference)
        found = result_of("joint", subject, Context(budget=600.0))
    assert found.status is status, found.detail


def test_a_seed_decides_the_texts_of_later_requests(tmp_path):
    """A defect on record (docs/findings/mlx-lm-server-seed.md): six texts of which no two should be bound."""
    with connected("--model", write_model(tmp_path)) as server:
        prompt, found = server.prompts[0], set()
        for _ in range(6):
            server.complete([Ask(prompt, 1, seed=7)])
            found.add(server.complete([Ask(prompt, 4)])[0].tokens)
    assert len(found) == 1
