"""What `init` writes keeps the sampler contract where everything was guessed, and says what was not."""

import importlib.util
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, audit
from spec_oracle.audit.instances import panel
from spec_oracle.cli import main
from spec_oracle.commands.signatures import guess
from spec_oracle.contracts.sampler import SamplerCode
from spec_oracle.gate.configuration import find_configuration
from verifiers import Paths

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
CODE = """
import torch


class Sampler:
    def __init__(self, config):
        self.config = config

    def forward(self, draft_token_ids, draft_probs, target_probs, /, beam_width, top_k=None):
        return next_tokens, num_accepted


class Rule:
    def verify(self, drafts, decisions):
        return None


def ragged(draft_tokens, draft_probs, target_probs, generator, *, draft_lengths=None, is_greedy=None):
    return draft_tokens, draft_lengths


class Engine:
    def next_token_probs(self, context): ...
    def generate(self, prompt, max_new_tokens, seed=None): ...


def handed(draft_ids: torch.Tensor, target_probs, bonus_ids, temperature, generator: torch.Generator):
    return output_ids


def in_numpy(draft_tokens, draft_logits, target_logits, rng):
    import numpy as np
    return np.zeros(3), num_emitted


def like_vllm(
    # [num_tokens]
    draft_token_ids: torch.Tensor,
    num_draft_tokens: list[int],
    bonus_token_ids: torch.Tensor,  # [batch_size, 1]
    sampling_metadata,
):
    if not sampling_metadata.all_random:
        greedy = sampling_metadata.temperature == 0
    return sample(draft_token_ids, sampling_metadata.generators, sampling_metadata.beams)


def by_uniforms(
    cu_num_draft_tokens, draft_token_ids, draft_probs, target_probs, bonus_token_ids, uniforms, final_coins
):
    ends = [0, *cu_num_draft_tokens.tolist()]
    assert len(uniforms) == ends[-1]
    output_ids = torch.full((len(bonus_token_ids), int(max(torch.tensor(ends).diff())) + 1), -1)
    for request, (start, end) in enumerate(zip(ends, ends[1:])):
        for place in range(start, end + 1):
            if place == end:
                output_ids[request, end - start] = bonus_token_ids[request, 0]
                break
            x, p, q = draft_token_ids[place], target_probs[place], draft_probs[place]
            if uniforms[place] * q[x] < p[x]:
                output_ids[request, place - start] = x
                continue
            left = (p - q).clamp(min=0)
            sums = (left if left.sum() > 0 else p).cumsum(0)
            output_ids[request, place - start] = (sums <= final_coins[request] * sums[-1]).sum()
            break
    return output_ids


def of_one(draft_ids: torch.Tensor, draft_logits, target_logits, is_greedy, temperature: float = 1.0):
    '''Verify draft_ids [1, L].'''
    assert temperature == 1.0
    assert not is_greedy.any()
    output_ids, num_accepted = torch.cat([draft_ids, draft_ids[:, :1]], 1), 0
    return output_ids, num_accepted


def by_request_state(
    target_logits: torch.Tensor,  # [num_logits, V]
    draft_logits: torch.Tensor,  # [max_num_reqs, num_steps, V]
    draft_ids: torch.Tensor,  # [num_tokens]
    cu_num_logits: torch.Tensor,  # [num_reqs + 1]
    seed: torch.Tensor,  # [max_num_reqs]
):
    assert cu_num_logits[0] == 0
    assert cu_num_logits[-1] == len(target_logits)
    assert seed.shape == draft_logits.shape[:1]
    sampled_ids, num_sampled = torch.zeros(len(seed), 1), torch.ones(len(seed))
    return sampled_ids, num_sampled


NUMBER = 3
"""


@pytest.fixture(autouse=True)
def _examples(folder):
    for file in (*EXAMPLES.glob("*_engine.py"), EXAMPLES / "same_uniform.py"):
        shutil.copy(file, folder)
    (folder / "mine.py").write_text(CODE)


def loaded(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drafts(batch=3, length=2, vocab=4):
    rows = np.random.default_rng(0).dirichlet(np.ones(vocab), size=(2, batch, 1, length + 1))
    tokens = np.random.default_rng(1).integers(vocab, size=(batch, 1, length))
    return Paths(tokens, rows[0][:, :, :length], rows[1])


@pytest.mark.parametrize(
    "name",
    ["flat_engine:rejection_sample", "padded_engine:verify_drafts", "mine:of_one", "mine:by_request_state"],
)
def test_an_adapter_without_open_questions_keeps_the_contract(folder, capsys, name):
    pytest.importorskip("torch")
    assert main(["init", name]) == 0
    shown = capsys.readouterr().out
    assert "not known" not in shown
    assert shown.endswith("next: spec-oracle audit\n")
    (file,) = folder.glob("*_adapter.py")
    assert "TODO" not in file.read_text()
    code = SamplerCode(loaded(file).verify, array="torch")
    is_flat = "flat_" in name or "state" in name
    options = {"draft_lengths": np.array([0, 2, 1])} if is_flat else {}
    assert (code(drafts(), code.generator(0), options).lengths >= 1).all()
    first, *others = find_configuration(folder).subjects
    assert first == f"{file.stem}:verify"
    assert others == [f"{file.stem}:verify_without_draft_probs"] * ("flat" in name)
    assert all(find_configuration(folder).options_of(one).array == "torch" for one in (first, *others))


def test_the_adapter_to_copy_equals_the_guessed_one():
    pytest.importorskip("torch")
    adapters = {
        name: (EXAMPLES / f"{name}_adapter.py").read_text() for name in ("flat", "padded", "uniforms")
    }
    functions = ("rejection_sample", "verify_drafts", "chain_speculative_sampling")
    for (name, text), function in zip(adapters.items(), functions, strict=True):
        guessed = guess(getattr(loaded(EXAMPLES / f"{name}_engine.py"), function))
        known = [argument for argument in guessed.arguments if argument.value]
        assert len(known) >= 3
        for argument in known:
            assert (
                f"{argument.name}={argument.value}," in text or f"{argument.name} = {argument.value}" in text
            )


OF_N_GRAMS = """
import numpy as np


def verify(draft_tokens, draft_probs: np.ndarray | None, target_probs, generator):
    emitted, counts = [], []
    for b, (drafted, rows) in enumerate(zip(draft_tokens, target_probs)):
        kept = []
        for i, token in enumerate(drafted):
            if draft_probs is None:
                takes = generator.random() < FACTOR * rows[i, token]
                rest = np.where(np.arange(len(rows[i])) == token, 0.0, rows[i])
            else:
                takes = generator.random() * draft_probs[b, i, token] < rows[i, token]
                rest = np.maximum(rows[i] - draft_probs[b, i], 0.0)
            if not takes:
                break
            kept.append(token)
        else:
            rest = rows[len(drafted)]
        counts.append(len(kept))
        kept.append(generator.choice(len(rest), p=rest / rest.sum()))
        emitted.append(kept + [-1] * (len(drafted) + 1 - len(kept)))
    return np.array(emitted), np.array(counts)
"""


@pytest.mark.parametrize(("factor", "verdict"), [("2", "lossy"), ("1", "lossless")])
def test_the_branch_of_a_parameter_that_may_be_none_is_audited(folder, capsys, factor, verdict):
    """With the rows of the draft both are right: only without them one accepts twice as often as it may."""
    (folder / "grams.py").write_text(OF_N_GRAMS.replace("FACTOR", factor))
    assert main(["init", "grams:verify"]) == 0
    shown = capsys.readouterr().out
    assert "grams:verify keeps a contract as it is: no adapter is needed" in shown
    assert "draft_probs may be None, for which the drafts are taken as certain" in shown
    subjects = find_configuration(folder).subjects
    assert subjects == ("grams:verify", "grams_adapter:verify_without_draft_probs")
    (test,) = folder.glob("test_*.py")
    assert all(f'checks_of("{subject}", array="numpy")' in test.read_text() for subject in subjects)
    instances = {"reversed": panel(3, 1, 1, 0)["reversed"]}
    options = AuditOptions(checks=(), budget=10.0, instances=instances, shrink=False)
    first, second = (report.verdict for report in audit(*subjects, options=options).subjects)
    assert (first, second) == ("lossless", verdict)


LOOP = "for row, generator in generators.items()"


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize(
    ("loop", "status"),
    [("for row, (_, generator) in enumerate(generators.items())", "failed"), (LOOP, "passed")],
)
def test_batches_in_which_some_requests_have_a_generator_are_audited(folder, loop, status):
    """The place in the dict is the place in the batch only where every request has a generator."""
    code = (folder / "flat_engine.py").read_text()
    assert LOOP in code
    (folder / "seeded.py").write_text(code.replace(LOOP, loop))
    assert main(["init", "seeded:rejection_sample"]) == 0
    options = AuditOptions(
        array="torch", checks=("joint", "streams"), draft_length=1, budget=20.0, shrink=False
    )
    (subject,) = audit("seeded_adapter:verify", options=options).subjects
    assert {check.name: str(check.status) for check in subject.checks}["streams"] == status


def test_a_function_that_reads_every_generator_is_handed_all(folder):
    code = (folder / "flat_engine.py").read_text()
    code = code.replace(LOOP, "for row in range(len(generators))")
    (folder / "listed.py").write_text(code.replace("generator=generator)", "generator=generators[row])"))
    assert main(["init", "listed:rejection_sample"]) == 0
    text = (folder / "listed_adapter.py").read_text()
    assert "generators=generators,  # a generator a request" in text
    assert "generators=None" not in text


def test_none_is_audited_only_where_its_meaning_is_known(folder, capsys):
    (folder / "mine.py").write_text(
        "import torch\n\n\n"
        "def verify(draft_ids: torch.Tensor, draft_probs, target_probs, bonus_ids=None, is_greedy=None,\n"
        "           generators: 'Optional[dict]' = None):\n"
        "    rows = target_probs if draft_probs is None else draft_probs\n"
        "    return output_ids\n"
    )
    assert main(["init", "mine:verify"]) == 0
    shown, text = capsys.readouterr().out, (folder / "mine_adapter.py").read_text()
    assert "may be None, but are audited only with a value: bonus_ids" in shown
    without = ("draft_probs", "is_greedy", "generators")
    names = ["verify", *(f"verify_without_{name}" for name in without[:2])]
    assert [f"mine_adapter:{name}" for name in names] == [*find_configuration(folder).subjects]
    assert "    is_greedy=None," in text.partition("def verify_without_is_greedy")[2]
    assert "is_greedy" not in text.partition("def verify_without_is_greedy(")[2].partition(")")[0]
    compile(text, "mine_adapter.py", "exec")


def test_unknown_parameters_are_marked_and_named(folder, capsys):
    code = (folder / "uniforms_engine.py").read_text().replace("predicts", "found")
    (folder / "uniforms_engine.py").write_text(code)
    assert main(["init", "uniforms_engine:chain_speculative_sampling"]) == 0
    shown, text = capsys.readouterr().out, (folder / "uniforms_engine_adapter.py").read_text()
    assert re.search("^  found +not known: TODO$", shown, re.MULTILINE)
    assert re.search("^  returns +not known: TODO$", shown, re.MULTILINE)
    assert "next: fill in the TODOs of uniforms_engine_adapter.py, then spec-oracle audit" in shown
    assert "found=None,  # TODO: [batch], written" in text
    assert "def verify(draft_tokens, draft_probs, target_probs, uniforms):" in text
    assert text.count("TODO") == 2


def test_output_arrays_are_created_and_read(folder, capsys):
    assert main(["init", "uniforms_engine:chain_speculative_sampling"]) == 0
    text = (folder / "uniforms_engine_adapter.py").read_text()
    assert "    num_accepted = torch.zeros(len(draft_tokens), dtype=torch.int64)\n" in text
    assert (
        "        num_accepted=num_accepted,  # written: number of accepted tokens; [batch], written" in text
    )
    assert text.endswith("    )\n    return from_accepted(draft_tokens, num_accepted, predicts)\n")
    assert "TODO" not in capsys.readouterr().out


def test_a_class_is_made_and_its_method_called(folder, capsys):
    assert main(["init", "mine:Sampler"]) == 0
    text = (folder / "mine_adapter.py").read_text()
    assert "under_test = Sampler(config=None)  # TODO" in text
    assert "output = under_test.forward(\n            draft_tokens,  # drafted tokens\n" in text
    assert "beam_width=None,  # TODO" in text
    assert "return from_accepted(draft_tokens, output[1], output[0])" in text
    assert "            # left at their defaults: top_k\n" in text
    shown = capsys.readouterr().out
    assert re.search("^  top_k +left at its default$", shown, re.MULTILINE)
    assert re.search("^  config +of the constructor, not known: TODO$", shown, re.MULTILINE)


def test_a_function_with_a_generator_is_handed_it_after_the_bonus_was_sampled(folder):
    assert main(["init", "mine:handed"]) == 0
    text = (folder / "mine_adapter.py").read_text()
    assert (
        "    with drawing_from(generator):\n        bonus_ids = sample_bonus(target_probs[:, -1])\n    out"
        in text
    )
    assert "target_probs=target_probs[:, :-1]," in text
    assert "temperature=torch.where(is_greedy, 0.0, 1.0)," in text
    compile(text, "mine_adapter.py", "exec")


def test_an_object_is_made_with_the_attributes_that_are_read(folder, capsys):
    assert main(["init", "mine:like_vllm"]) == 0
    text = (folder / "mine_adapter.py").read_text()
    made = """
    sampling_metadata = SimpleNamespace(
        all_random=not batch.is_greedy.any(),  # whether none is greedy
        temperature=torch.where(batch.is_greedy, 0.0, 1.0),  # temperature, 0 for greedy requests
        generators=batch.generators(generator),  # a generator a request
        beams=None,  # TODO
    )
    with drawing_from(generator):
"""
    assert made in text
    assert "draft_token_ids=batch.tokens,  # drafted tokens [num_tokens]" in text
    assert "num_draft_tokens=batch.lengths.tolist(),  # drafted tokens of each request" in text
    told = capsys.readouterr().out
    read = "all_random, temperature, generators, beams (TODO)"
    assert f"sampling_metadata  an object with the attributes that are read: {read}" in told
    assert "next: fill in the TODOs" in told


@pytest.mark.usefixtures("less_effort")
def test_flat_tensors_come_with_a_uniform_for_each_token(folder, capsys):
    pytest.importorskip("torch")
    assert main(["init", "mine:by_uniforms"]) == 0
    assert "TODO" not in capsys.readouterr().out
    verify = loaded(folder / "mine_adapter.py").verify
    options = AuditOptions(array="torch", checks=("joint",), draft_length=2)
    assert audit(verify, options=options).subjects[0].verdict == "lossless"


def test_an_adapter_with_open_places_is_said_to_have_them(folder, capsys):
    pytest.importorskip("torch")
    assert main(["init", "mine:handed"]) == main(["init", "mine:Sampler", "--force"]) == 0
    assert main(["audit", "mine_adapter:verify", "--array", "torch", "--check", "joint"]) == 3
    assert "do: fill in the TODOs of mine_adapter.py" in capsys.readouterr().out


def test_a_contract_broken_in_an_adapter_asks_for_its_guesses(folder, capsys):
    pytest.importorskip("torch")
    (folder / "odd.py").write_text(
        "import torch\n\ndef verify(draft_ids, draft_probs, target_probs):\n    return draft_ids[:, :1]\n"
    )
    assert main(["init", "odd:verify"]) == 0
    assert main(["audit", "odd_adapter:verify", "--array", "torch", "--check", "joint"]) == 3
    assert "do: correct what odd_adapter.py takes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "code",
    [
        "class Decoder:\n    def __init__(self, model): ...\n    def verify(self, inp, drafts, rows): ...\n",
        "class Greedy:\n    def verify(self, draft_ids, target_logits): ...\n",
        "class Driver:\n    def verify(self, input_ids, draft_ids, cache=None): ...\n",
    ],
)
def test_a_class_with_a_verify_of_its_own_is_no_rule(folder, capsys, code):
    (folder / "owned.py").write_text(code)
    assert main(["init", f"owned:{code.split(':')[0].split()[1]}"]) == 0
    shown = capsys.readouterr().out
    assert "no adapter is needed" not in shown
    assert ("model is a model: what drafts by itself" in shown) is ("model" in code)
    assert (folder / "owned_adapter.py").exists()


def test_a_function_of_models_is_called_an_engine(folder, capsys):
    (folder / "drafting.py").write_text(
        "def step(draft_model, target_model, input_ids, gamma=5):\n    return input_ids\n"
    )
    assert main(["init", "drafting:step"]) == 0
    shown = capsys.readouterr().out
    assert "draft_model and target_model are models: what drafts by itself is audited as an engine" in shown
    assert "docs/guide/audit-your-engine.md" in shown


def test_the_parameters_of_transformers_are_known():
    utils = pytest.importorskip("transformers.generation.utils")
    guessed = guess(utils._speculative_sampling)
    assert not guessed.unknown
    assert "assistant_ensemble_weight" in {one.name for one in guessed.arguments if one.is_left}


def test_numpy_has_its_own_words(folder):
    assert main(["init", "mine:in_numpy"]) == 0
    text = (folder / "mine_adapter.py").read_text()
    assert "target_logits=np.log(target_probs)," in text
    assert "torch" not in text
    assert find_configuration(folder).options["array"] == "numpy"


@pytest.mark.parametrize(
    ("parameter", "lacks_helper"), [("draft_ids: np.ndarray,  # [num_tokens]", True), ("found,", False)]
)
def test_helpers_that_are_for_torch_are_named_where_one_is_missed(folder, capsys, parameter, lacks_helper):
    code = f"import numpy as np\n\n\ndef verify(\n    target_probs: np.ndarray,\n    {parameter}\n): ...\n"
    (folder / "one.py").write_text(code, encoding="utf-8")
    assert main(["init", "one:verify"]) == 0
    shown = capsys.readouterr().out
    assert "not known: TODO" in shown
    assert ("are for torch: numpy arrays are left to you" in shown) is lacks_helper


@pytest.mark.parametrize("name", ["same_uniform:verify", "mine:Rule", "mine:ragged", "mine:Engine"])
def test_code_that_keeps_a_contract_needs_no_adapter(folder, capsys, name):
    assert main(["init", name]) == 0
    assert "no adapter is needed" in capsys.readouterr().out
    assert not [*folder.glob("*_adapter.py")]
    assert find_configuration(folder).subjects == (name,)
    (test,) = folder.glob("test_*.py")
    assert f'checks_of("{name}"' in test.read_text()


def test_nothing_is_overwritten_without_force(folder, capsys):
    (folder / "padded_engine_adapter.py").write_text("mine")
    assert main(["init", "padded_engine:verify_drafts"]) == 3
    assert capsys.readouterr().err.endswith(
        "padded_engine_adapter.py: there already; --force overwrites them\n"
    )
    assert (folder / "padded_engine_adapter.py").read_text() == "mine"
    assert not [*folder.glob("test_*"), *folder.glob("*.toml")]
    assert main(["init", "padded_engine:verify_drafts", "--force"]) == 0
    assert "verify_drafts" in (folder / "padded_engine_adapter.py").read_text()


def test_a_project_gets_a_table_and_a_test_among_its_tests(folder, capsys):
    (folder / "pyproject.toml").write_text('[project]\nname = "engine"')
    (folder / "tests").mkdir()
    assert main(["init", "padded_engine:verify_drafts"]) == 0
    assert find_configuration(folder).file == folder / "pyproject.toml"
    assert (folder / "tests/test_padded_engine_is_lossless.py").is_file()
    assert main(["init", "mine:Rule"]) == 0
    told = 'to do: add {name = "mine:Rule", array = "torch"} to the subjects of pyproject.toml'
    assert told in capsys.readouterr().out
    assert find_configuration(folder).subjects == ("padded_engine_adapter:verify",)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("token", "package.module:object"),
        ("mine:NUMBER", "cannot be called"),
        ("mine:Sampler.forward", "name the class"),
        ("mine:Sampel", "did you mean 'Sampler'"),
        ("mien:Sampler", "did you mean 'mine'"),
    ],
)
def test_a_mistake_is_one_line(folder, capsys, name, says):
    assert main(["init", name]) == 3
    assert says in capsys.readouterr().err
    assert not [*folder.glob("test_*")]
