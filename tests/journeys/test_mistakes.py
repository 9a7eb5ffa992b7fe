"""Wrong inputs as people make them: one line with the next step, and never an internal error.

The exit code is 3; it is 2 where code cannot be loaded, or nothing is left to run.
"""

import json
import sys

import pytest

from spec_oracle.cli import main
from tests.subjects import forget_modules_of

CODE = """
import numpy as np

TEN = 10


def verify(draft_tokens, draft_probs, target_probs, generator):
    raise RuntimeError("my bug")


def three(draft_tokens, draft_probs, target_probs):
    return draft_tokens, None


def five(draft_tokens, draft_probs, target_probs, generator, temperature):
    return draft_tokens, None


def calls(draft_tokens, draft_probs, target_probs, generator):
    return helps(target_probs)


def helps(rows):
    return rows.gather(-1, rows)


class Engine:
    def generate(self, prompt, max_new_tokens, seed=None):
        return [0]


class Fails:
    def __init__(self):
        raise ValueError("no weights")


class Rule:
    def verify(self, drafts, decisions):
        return None
"""

FILES = {
    "mine.py": CODE,
    "syntax.py": "def verify(:\n",
    "imports.py": "import no_such_library\n",
    "exits.py": "import sys\nsys.exit(0)\n",
    "empty.json": "",
    "list.json": "[]",
    "object.json": "{}",
    "text.json": "not json",
    "endless.json": '{"draft_length": 1, "target": {"": [1], "0": [1]}, "draft": {"": ["1e999999999"]}}',
    "binary.json": b"\xff\xfe\x00",
    "broken.toml": "[audit\n",
    "unknown.toml": 'subjects = ["token"]\nbugdet = 5\n',
    "type.toml": 'subjects = ["token"]\nbudget = "long"\n',
    "check.toml": 'subjects = ["token"]\n[[skips]]\nsubject = "token"\ncheck = "jiont"\nreason = "why"\n',
    "plan.toml": 'task = "efficiency"\n[axes]\nverifier = ["token"]\nvocab_sise = [2]\ndraft_length = [2]\n',
    "axes.toml": 'task = "efficiency"\naxes = 3\n',
    "task.toml": 'task = "efficency"\n[axes]\nx = [1]\n',
    "seed.toml": 'task = "efficiency"\n[axes]\nverifier = ["token"]\nseed = [1]\n',
    "texts.jsonl": '{"prompt": [1], "token": [1]}',
    "calls.jsonl": '{"drafted": [1], "n_accepted": 1}',
    "own.toml": 'task = "no_module:task"\n[axes]\nx = [1]\n',
    "empty.toml": "",
    "digits.toml": f'task = "efficiency"\nsubjects = ["token"]\nseed = {"9" * 5000}\n',
    "nested.toml": 'subjects = ["token"]\nchecks = [["joint"]]\n',
    "numbers.toml": 'subjects = ["token"]\nlayouts = [3]\n',
    "prompts.txt": "",
    "deep.json": "[" * 100_000,
    "twice.json": '{"draft_length": 1, "target": {"": [1], "0": [1]}, "draft": {"": [1], "": [1]}}',
    "probabilities.jsonl": '{"prompt": [1], "tokens": [1], "rows": [{"0": 0.25, "1": 0.75}]}',
    "null.jsonl": "null",
    "words.jsonl": '{"prompt": [1], "tokens": [1], "rows": [{"one": -0.5}]}',
}

MISTAKES = [
    ("", "COMMAND --help"),
    ("audti token", "audit"),
    ("audit tokn", "did you mean 'token'"),
    ("audit mine", "'mine' is a module: name an object in it, mine:verify or mine:"),
    ("audit nowhere/mine.py:verify", "there is no file nowhere/mine.py"),
    ("init mine.py:verify", "name its module as you import it, mine:verify"),
    ("audit mine.py", "mine:verify"),
    ("audit mine:", "mine"),
    ("audit :verify", "module"),
    ("audit mine:verfy", "did you mean 'verify'"),
    ("audit mime:verify", "did you mean 'mine'"),
    ("audit mine:TEN", "neither a verifier nor an engine nor callable"),
    ("audit mine:Engine", "next_token_probs"),
    ("audit syntax:verify", "syntax.py"),
    ("audit imports:verify", "no_such_library"),
    ("audit exits:verify", "SystemExit"),
    ("audit mine:Fails", "no weights"),
    ("audit token --check jiont", "did you mean 'joint'"),
    ("audit token --skip jiont", "did you mean 'joint'"),
    ("audit token --skip joint --check inputs-kept", "joint"),
    ("audit token --bugdet 5", "unknown option '--bugdet'; did you mean '--budget'?"),
    ("audit-server http://127.0.0.1:9 --formt json", "did you mean '--format'?"),
    ("optimum toy.json --format txet", "unknown --format 'txet'; did you mean 'text'?"),
    ("optimum toy.json --report found.pdf", "unknown suffix '.pdf'"),
    ("efficiency toy.json --report found.xml", "unknown suffix '.xml'; known ones are .txt, .json"),
    ("audit token --budget 0", "--budget"),
    ("audit token --budget long", "--budget"),
    ("audit token --alpha 2", "--alpha"),
    ("audit token --alpha 0", "--alpha"),
    ("audit token --vocab-size 1", "vocab_size"),
    ("audit token --vocab-size x", "--vocab-size"),
    ("audit token --vocab-size 1000", "vocab"),
    ("audit token --draft-length 0", "--draft-length"),
    ("audit token --num-paths 0", "--num-paths"),
    ("audit token --array tensorflow", "numpy"),
    ("audit token --dtype float12", "float16"),
    ("audit token --format yaml", "json"),
    ("audit token --output missing/report.html", "no folder"),
    ("audit token --output .", "folder"),
    ("audit token --instance missing.json", "missing.json"),
    ("audit token --instance empty.json", "empty.json"),
    ("audit token --instance list.json", "list.json"),
    ("audit token --instance object.json", "object.json"),
    ("audit token --instance text.json", "text.json"),
    ("audit token --instance binary.json", "binary.json"),
    ("audit token --instance deep.json", "deep.json: not JSON: "),
    ("acceptance deep.json", "deep.json: line 1: not JSON: "),
    ("audit-transcripts deep.json", "deep.json: line 1: not a transcript: "),
    ("audit token --instance twice.json", "twice.json: key '' appears twice"),
    ("audit-transcripts probabilities.jsonl", "not a transcript: expected log-probabilities, got 0.25"),
    ("audit-transcripts null.jsonl", "line 1: not a transcript: expected an object, got null"),
    ("audit-transcripts words.jsonl", "expected log-probabilities by token id, got 'one'"),
    ("audit token --prompt a,b", "--prompt: expected token ids joined by commas, got a,b"),
    ("audit token --tokens 0", "--tokens"),
    ("audit token --tokens 1000000000", "tokens: expected at most 10,000, got 1000000000"),
    ("audit token --jobs 0", "--jobs"),
    ("audit token --timeout 0", "--timeout"),
    ("audit token --memory -1", "--memory"),
    ("audit token --config missing.toml", "missing.toml"),
    ("audit token --config broken.toml", "line 1"),
    ("audit token --config unknown.toml", "did you mean 'budget'"),
    ("audit token --config type.toml", "budget"),
    ("audit token --config check.toml", "did you mean 'joint'"),
    ("audit token --config digits.toml", "digits.toml: cannot be read"),
    ("audit token --config nested.toml", "nested.toml:2: checks: unknown check"),
    ("audit token --config numbers.toml", "numbers.toml:2: layouts: unknown layout '3'"),
    ("sweep digits.toml", "digits.toml"),
    ("audit token --baseline missing.json", "--update-baseline"),
    ("audit token --baseline text.json", "text.json"),
    ("audit token --seed x", "--seed"),
    ("audit token --seed -3", "seed: expected at least 0, got -3"),
    ("audit token --only vocabularies=999999999", "vocabularies: expected at most 1,000,000, got 999999999"),
    ("audit token --only batches=1e3", "--only: expected whole numbers joined by commas, got 1e3"),
    ("audit naive --num-paths 1000000000", "num_paths: expected at most 1,000, got 1000000000"),
    ("audit token --durations 0", "--durations"),
    ("init", "--help"),
    ("init token", "package.module:object"),
    ("init mine:TEN", "cannot be called"),
    ("init mine:verfy", "did you mean 'verify'"),
    ("init mime:verify", "did you mean 'mine'"),
    ("init syntax:verify", "syntax.py"),
    ("init imports:verify", "no_such_library"),
    ("init exits:verify", "SystemExit"),
    ("audit-server", "--help"),
    ("audit-server http://127.0.0.1:9", "127.0.0.1:9"),
    ("audit-server not-a-url", "not-a-url"),
    ("audit-transcripts texts.jsonl", "texts.jsonl: line 1: "),
    ("acceptance calls.jsonl", "calls.jsonl: line 1 has no field 'accepted' (has drafted, n_accepted)"),
    ("explain jiont", "did you mean 'joint'"),
    ("diff", "--help"),
    ("diff missing.json missing.json", "missing.json"),
    ("diff text.json text.json", "text.json"),
    ("diff object.json object.json", "object.json"),
    ("efficiency", "instance"),
    ("efficiency missing.json", "missing.json"),
    ("efficiency endless.json", "draft, context \"\", token 0: '1e999999999' has an exponent beyond 400"),
    ("audit token --instance endless.json", 'context "", token 0'),
    ("efficiency toy.json --verifier tokn", "did you mean 'token'"),
    ("efficiency toy.json --verifier mine:Rule", "Verdict"),
    ("efficiency toy.json --verifier mine:verify", "mine:verify"),
    ("efficiency toy.json --plot missing/plot.svg", "missing"),
    ("efficiency --prompts missing.txt", "missing.txt"),
    ("efficiency --prompts prompts.txt", "prompts.txt"),
    ("optimum", "--help"),
    ("optimum missing.json", "missing.json"),
    ("optimum text.json", "text.json"),
    ("instance", "--help"),
    ("instance random --vocab-size 0", "--vocab-size"),
    ("instance example --output missing/toy.json", "no folder"),
    ("sweep missing.toml", "missing.toml"),
    ("sweep plan.toml", "vocab_sise"),
    ("sweep axes.toml", "axes.toml: axes: expected a table"),
    ("sweep seed.toml", "seed.toml: axes.seed: the seed follows from the arguments"),
    ("sweep task.toml", "efficiency"),
    ("sweep own.toml", "no_module"),
    ("sweep empty.toml", "task"),
    ("sweep broken.toml", "line 1"),
    ("sweep plan.toml --output missing/rows.jsonl", "no folder"),
    ("audit token --report", "spec-oracle audit --help"),
    ("audit token --report page.pdf", "unknown suffix '.pdf'; known ones are .txt, .json, .xml, .md, .html"),
    ("audit token --report missing/page.html", "there is no folder missing"),
    ("audit token --tokens x", "--tokens: invalid"),
    ("audit token --only layout=contiguous", "AXIS one of vocabularies, lengths"),
    ("audit token --only layouts=slyced", "did you mean 'sliced'"),
    ("audit token --only layouts=", "expected AXIS=VALUES"),
    ("audit token --array torc", "did you mean 'torch'"),
    ("audit block/greedy", "--list, or package.module:object"),
    ("audit token@1.0", "did you mean 'token'"),
    ("audit token --update-baseline", "add --baseline FILE"),
    ("audit token --baseline toy.json", "write it again with --update-baseline"),
    ("audit token --checks joint", "--help"),
    ("audit token --config mine.py", "line 2"),
    ("audit token --exact --array torch", "rationals need array='numpy'"),
    ("audit token --prompt ,", "--prompt"),
    ("audit token token2", "did you mean 'token'"),
    ("efficiency toy.json --format latx", "'latex'"),
    ("efficiency toy.json --tree K=2", "expected a shape such as 'K = 4, L = 2'"),
    ("instance random --kind flatt", "known ones are dirichlet"),
    ("instance lm", "required: --prompt"),
    ("diff toy.json toy.json", "audit again"),
    ("sweep toy.json", "toy.json"),
    ("audit-server ftp://127.0.0.1", "expected http://HOST:PORT"),
    ("audit-server http://127.0.0.1:9 --detect 2", "a number between 0 and 1"),
    ("init mine:Engine.generate", "name the class"),
    ("init mine", "expected package.module:object"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("user")
    for name, content in FILES.items():
        (here / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["instance", "example", "--output", str(here / "toy.json")]) == 0
    yield here
    forget_modules_of(here)


def test_at_least_120_wrong_inputs_are_tried():
    assert len({line for line, _ in MISTAKES}) >= 120


def test_a_missing_torch_is_named_with_the_command_that_installs_it(folder, monkeypatch, capsys):
    how = "torch is not installed; pip install 'spec-oracle[torch]' --extra-index-url https://"
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not there
    monkeypatch.chdir(folder)
    (folder / "needs_torch.py").write_text("import torch\n\n\ndef verify(a, b, c, d):\n    return None\n")
    for words in (["audit", "token", "--array", "torch"], ["init", "needs_torch:verify"]):
        assert main(words) == 3
        assert how in capsys.readouterr().err


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Ask a server that does not answer again at once."""
    monkeypatch.setattr("spec_oracle.servers.client.client.LONGEST_PAUSE", 0.0)


@pytest.mark.parametrize(("line", "says"), MISTAKES, ids=[line or "nothing" for line, _ in MISTAKES])
def test_a_mistake_is_one_line_with_the_next_step(folder, monkeypatch, capsys, line, says):
    monkeypatch.chdir(folder)
    quick = ["--check", "joint", "--budget", "2"] if ":" in line and line.startswith("audit ") else []
    try:
        code = main([*line.split(), *quick])
    except SystemExit as ended:
        code = ended.code
    shown = capsys.readouterr()
    told = shown.out + shown.err
    assert code == (2 if "every check not run" in told or "--skip joint" in line else 3), told
    assert says in told
    assert "internal error" not in told
    assert "Traceback" not in told


TENSORS = """
import numpy as np
import torch

def verify(draft_tokens, draft_probs, target_probs, generator):
    raise ValueError("first line\\nsecond line")
"""


TENSORS_AS_ASKED = """
def of_numpy(draft_tokens, draft_probs, target_probs, generator):
    tokens = np.full((len(draft_tokens), draft_tokens.shape[1] + 1), -1)
    tokens[:, 0] = generator.integers(2, size=len(tokens))
    return tokens, np.zeros(len(tokens), int)


def right(draft_tokens, draft_probs, target_probs, generator):
    torch.rand((1, 1), generator=generator)
    tokens = torch.multinomial(target_probs[:, 0], 1, generator=generator)
    nothing = torch.full((len(tokens), draft_tokens.shape[1]), -1)
    return torch.cat([tokens, nothing], dim=1), tokens[:, 0] * 0
"""


def test_code_that_takes_tensors_is_told_the_option_and_of_an_error_one_line(tmp_path, monkeypatch, capsys):
    """The error of torch has a line for each form of `rand`; other code raises with tensors, too."""
    (tmp_path / "takes_tensors.py").write_text(TENSORS + TENSORS_AS_ASKED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    line = "audit takes_tensors:right --check joint --budget 2"
    assert main(line.split()) == 3
    shown = capsys.readouterr().out
    assert "do: spec-oracle audit takes_tensors:right --check joint --budget 2 --array torch\n" in shown
    assert "Tensor out = None" not in shown
    assert main([*line.replace("right", "of_numpy").split(), "--array", "torch"]) == 3
    assert "of_numpy --check joint --budget 2 --array numpy\n" in capsys.readouterr().out
    assert main(line.replace("right", "verify").split()) == 3
    shown = capsys.readouterr().out
    assert "first line (at takes_tensors.py:6)" in shown
    assert "--array torch" not in shown


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("verify", "raised RuntimeError: my bug (at mine.py:8)"),
        ("three", "draft_tokens [B, L]"),
        ("five", "draft_tokens [B, L]"),
        ("Rule", "it must return a Verdict"),
        ("calls", "(at mine.py:24, from mine.py:20)"),
        ("calls", "`--array torch` gives it tensors"),
    ],
)
def test_code_that_does_not_keep_the_contract_is_broken_at_its_line(folder, monkeypatch, capsys, name, says):
    monkeypatch.chdir(folder)
    arguments = ["audit", f"mine:{name}", "--check", "joint", "--budget", "2", "--format", "json"]
    assert main(arguments) == 3
    (subject,) = json.loads(capsys.readouterr().out)["subjects"]
    assert subject["verdict"] == "broken"
    told = next(check["detail"] for check in subject["checks"] if check["name"] == "joint")
    assert says in told
    assert "mine.py:" in told
