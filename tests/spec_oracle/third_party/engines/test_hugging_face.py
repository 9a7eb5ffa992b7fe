"""transformers' `generate` as installed: the law of assisted decoding is that of plain decoding."""

import subprocess
import sys
from itertools import product

import pytest

from spec_oracle.audit import AuditOptions, Evidence, SubjectVerdict, audit, registry
from spec_oracle.audit.context import Context
from spec_oracle.audit.registry import listed
from spec_oracle.audit.results import Status
from spec_oracle.audit.subjects import of_engines, resolve_subject
from spec_oracle.errors import EngineError

pytest.importorskip("torch")
pytest.importorskip("transformers")

from lab.studies.beside_plain import beside_plain
from lab.transformers_engines import GENERATORS, engine_of
from spec_oracle.audit.engine.logprobs import logprobs
from spec_oracle.audit.engine.tracer import completions_of, traced
from spec_oracle.contracts.engine import EngineCode
from spec_oracle.exact.completions import completion_gap, distance
from spec_oracle.third_party.engines.hugging_face import engines
from tests.efforts import set_effort
from tests.strategies import at_night, by_day
from tests.subjects import of_engine

LOSSY = {"other tokenizer, unsorted"}
"""See docs/findings/transformers-other-tokenizer.md."""


def report_on(generator, option, tokens, checks=()):
    subject = of_engines(f"{generator}, {option}", {"": engine_of(generator, option)})
    options = AuditOptions(budget=8.0, checks=checks, tokens=tokens)
    (found,) = audit(subject, options=options).subjects
    return found


UNUSABLE = {"Gemma 4 assistant"}
"""See docs/findings/transformers-gemma-assistant.md."""

REFUSED = {
    ("assistant", "Mamba 2"): "not supported with stateful models",
    ("assistant", "RecurrentGemma"): "not supported with stateful models",
    ("lookup", "Qwen3-Next"): "not supported with stateful models",
    ("assistant", "MiniMax"): "[Aa]ssisted decoding requires a cache",
    ("Mamba 2 assistant", "top-k"): "only contain LinearAttention layers",
    ("RecurrentGemma assistant", "top-k"): "NoneType",
}
"""What transformers says of layers that cannot forget rejected drafts, and of assistants with such layers."""


USABLE = sorted(GENERATORS.keys() - UNUSABLE - {of for of, _ in REFUSED} | {"assistant", "lookup"})
CHECKS = (("joint",), (), ("calls",))
OF_DAY = [("assistant", ()), *((one, ("joint",)) for one in ("lookup", "other tokenizer", *sorted(LOSSY)))]


@pytest.mark.parametrize("generator", UNUSABLE)
def test_a_generator_that_no_model_can_drive_says_so(generator):
    with pytest.raises(ValueError, match="layer types producing a cache is different"):
        engine_of(generator, "top-k")


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize(("generator", "checks"), by_day([*product(USABLE, CHECKS)], OF_DAY))
def test_every_generator_of_candidates_is_proved(generator, checks):
    """By day one generator of each kind, and the lossy one: others differ in code of transformers only."""
    found = report_on(generator, "top-k", 3, checks)
    verdict = SubjectVerdict.LOSSY if generator in LOSSY else SubjectVerdict.LOSSLESS
    assert (found.verdict, found.evidence) == (verdict, Evidence.EXACT)


@pytest.mark.parametrize(("generator", "option"), REFUSED)
def test_recurrent_layers_are_refused(generator, option):
    engine = engine_of(generator, option)
    (prompt,) = engine.prompts
    assert len(engine.generate_plain(prompt, 2)) == 2
    with pytest.raises((ValueError, RuntimeError, TypeError), match=REFUSED[generator, option]):
        engine.generate(prompt, 8)


@pytest.mark.parametrize(
    ("generator", "option"),
    by_day(
        [*product(("assistant", "lookup"), ("Gemma 3", "LFM2", "LFM3"))],
        [("lookup", "Gemma 3"), ("lookup", "LFM2")],
    ),
)
def test_sliding_and_convolutional_layers_are_lossless(generator, option):
    found, *_ = beside_plain(engine_of(generator, option), 3, 100, 1000)
    assert found < 1e-7


@pytest.mark.nightly
@pytest.mark.parametrize("generator", ["assistant", "lookup"])
def test_guidance_is_computed_with_rejected_drafts(generator):
    """See docs/findings/transformers-guidance.md."""
    found, *_ = beside_plain(engine_of(generator, "guidance"), 3, 100, 1000)
    assert found == pytest.approx(0.055, abs=0.006)


@pytest.mark.filterwarnings("ignore:Unfeasible length constraints")  # of rows: one token is generated
@pytest.mark.parametrize(
    "option", ["eta", "top-h", "bad words", "least new tokens", "length penalty", "many at once", "greedy"]
)
def test_rows_are_those_that_the_engine_samples_from(option):
    code = EngineCode(engine_of("assistant", option))
    (prompt,) = code.prompts
    plain = traced(completions_of(code, prompt, 3, "generate_plain"), 1000)
    assert distance(plain.law, code.law(prompt, 3)) < 1e-7


@pytest.mark.nightly
def test_output_scores_are_those_that_are_sampled(monkeypatch):
    set_effort(monkeypatch, ENGINE_REPORTS_TURNS=6)
    found = logprobs(of_engine(engine_of("assistant", "top-k")), Context())
    assert found.status is Status.PASSED, found.detail
    assert found.detail.startswith("those after temperature and filters; ")


@pytest.mark.parametrize(
    ("vocab_size", "tokens", "most_runs"),
    at_night((3, 3, 60), (3, 4, 500), (2, 6, 950)),
)
def test_several_rejections_and_full_acceptances_in_a_row(vocab_size, tokens, most_runs):
    code = EngineCode(engine_of("assistant", "sampling", vocab_size))
    (prompt,) = code.prompts
    plain = traced(completions_of(code, prompt, tokens, "generate_plain"), 20_000)
    found = traced(completions_of(code, prompt, tokens), 20_000)
    assert distance(found.law, plain.law) < 1e-7
    assert found.runs <= most_runs


def test_text_goes_on_behind_a_stop_sequence():
    code = EngineCode(engine_of("assistant", "stop sequence"))
    (prompt,) = code.prompts
    gap = completion_gap(traced(completions_of(code, prompt, 3), 1000).law, code.law(prompt, 3))
    assert gap.sequence[:2] == (2, 1)
    assert abs(gap.actual - gap.expected) > 0.01


@pytest.mark.nightly
@pytest.mark.usefixtures("less_effort")
def test_text_behind_a_stop_sequence_is_found():
    found = report_on("assistant", "stop sequence", 3, ("calls",))
    assert found.verdict is SubjectVerdict.LOSSY
    sequence = found.counterexample.gap.sequence
    assert (sequence == (2, 1)) or sequence[:2] == (2, 1)


def test_twelve_ways_to_generate_are_audited():
    assert len(engines()) == 12


@pytest.mark.nightly
def test_the_subject_is_known_by_name_without_being_imported():
    code = (
        "import sys; from spec_oracle.audit.registry import listed\n"
        "assert 'transformers-generate' in {one.name for one in listed()}\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_package_is_a_reason_in_one_line(monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    (about,) = (one.about for one in listed() if one.name == "transformers-generate")
    assert about == "torch, transformers not installed"
    with pytest.raises(EngineError, match="not installed"):
        resolve_subject("transformers-generate")
