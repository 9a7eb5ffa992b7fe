"""The pytest plugin, as a project that uses it would: in a pytest run of its own."""

import pytest

from spec_oracle.audit.table import CHECKS
from tests.strategies import at_night

pytest_plugins = ["pytester"]

SAMPLERS = """
import numpy as np
import verifiers
from spec_oracle.contracts import as_sampler

right = as_sampler(verifiers.get("token"))

def wrong(tokens, draft_probs, target_probs, generator):
    bonus = np.array([generator.choice(len(rows[-1]), p=rows[-1]) for rows in target_probs])
    return np.concatenate([tokens, bonus[:, None]], axis=1), np.full(*tokens.shape)
"""

OPTIONS = "draft_length=1, vocab_size=2, checks=()"


@pytest.fixture
def project(pytester):
    pytester.makepyfile(samplers=SAMPLERS)
    return pytester


def run(project, *arguments):
    """Run pytest: in this process, which has imported everything; with workers in one of its own.

    These import no other plugins, each of which takes them a while.
    """
    run = project.runpytest_inprocess
    if "-n" in arguments:
        run, arguments = project.runpytest_subprocess, ("-p", "xdist", *arguments)
        project._monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return run("-p", "spec_oracle.pytest_plugin", *arguments)


def test_right_passes_wrong_fails_with_the_report_and_a_second_call_is_refused(project):
    project.makepyfile(f"""
        from samplers import right, wrong

        def test_right(assert_lossless):
            assert_lossless(right, {OPTIONS})

        def test_wrong(assert_lossless):
            assert_lossless(wrong, {OPTIONS})

        def test_twice(assert_lossless):
            assert_lossless(right, {OPTIONS})
            assert_lossless(right, {OPTIONS})
    """)
    result = run(project)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*smallest counterexample*", "*reproduce: spec-oracle audit*"])
    result.stdout.fnmatch_lines(["*expected one call of assert_lossless*"])


@pytest.mark.parametrize("layout", [("-p", "no:xdist"), *at_night((("-n", "2"),))])
def test_the_rate_is_shared_by_the_tests_that_use_it_on_any_layout_of_workers(project, layout):
    project.makepyfile(f"""
        import pytest
        import spec_oracle.audit
        from samplers import right

        @pytest.fixture(autouse=True)
        def spy(monkeypatch):
            audit = spec_oracle.audit.audit
            def judged(*subjects, options):
                assert options.alpha == 1e-3 / 4
                return audit(*subjects, options=options)
            monkeypatch.setattr(spec_oracle.audit, "audit", judged)

        @pytest.mark.parametrize("number", range(4))
        def test_right(assert_lossless, number):
            assert_lossless(right, {OPTIONS})

        def test_of_something_else():
            pass
    """)
    run(project, "--spec-oracle-alpha", "1e-3", *layout).assert_outcomes(passed=5)


CONFIGURED = """
[tool.spec-oracle]
subjects = ["samplers:right", "samplers:wrong", "block"]
alpha = 1e-4
draft-length = 1
vocab-size = 2
checks = ["inputs-kept", "bad-input", "draft-law"]

[[tool.spec-oracle.expected-failures]]
subject = "samplers:wrong"
check = "joint"
at-most = 1.0
reason = "issue 12"
"""


@pytest.fixture
def configured(project):
    project.makepyprojecttoml(CONFIGURED)
    return project


@pytest.mark.parametrize("layout", [("-p", "no:xdist"), ("-n", "2")])
def test_an_item_a_check_and_subject_of_the_configuration(configured, layout):
    result = run(configured, *layout)
    result.assert_outcomes(passed=7, xfailed=1, failed=1, skipped=3)
    result.stdout.fnmatch_lines(
        [
            "spec-oracle *: 3 subjects of pyproject.toml, alpha 0.0001, seed 0",
            "samplers:wrong: bad-input: failed: *",
            "  reproduce: *samplers:wrong --instance */samplers-wrong-bad-input.json *--alpha 3.3*e-05",
            "*= spec-oracle, alpha 0.0001 =*",
            "subject *evidence *detects TV *passed *failed *expected *open *n/a",
            "samplers:right *exact * 3 * 0 * 0 * 0 * 1",
            "samplers:wrong *exact * 1 * 1 * 1 * 0 * 1",
        ],
        consecutive=False,
    )


def test_a_selection_finds_what_the_whole_run_finds_at_the_same_rate(configured):
    line = "  reproduce: *samplers:wrong --instance */samplers-wrong-bad-input.json *--alpha 3.3*e-05"
    for words, outcomes in (
        (["-k", "wrong and bad-input"], {"failed": 1, "deselected": 11}),
        (["--lf"], {"failed": 1, "deselected": 11}),
        (["pyproject.toml::samplers:wrong::bad-input"], {"failed": 1}),
        (["--runxfail", "-k", "wrong and joint"], {"failed": 1, "deselected": 11}),
    ):
        result = run(configured, *words)
        result.assert_outcomes(**outcomes)
        if "--runxfail" not in words:
            result.stdout.fnmatch_lines([line])
    result.stdout.fnmatch_lines(["*smallest counterexample*", "  reproduce: * --instance counterexamples/*"])


def test_items_stand_beside_testpaths_and_away_from_files_that_are_asked_for(configured):
    configured.makepyprojecttoml(f'{CONFIGURED}\n[tool.pytest.ini_options]\ntestpaths = ["sub"]')
    configured.mkpydir("sub")
    (configured.path / "sub" / "test_nothing.py").write_text("def test_nothing(): pass")
    run(configured, "-k", "nothing or joint").assert_outcomes(passed=3, xfailed=1, deselected=9)
    run(configured, "sub").assert_outcomes(passed=1)


def test_an_entry_that_passes_or_does_not_apply_fails(configured):
    record = CONFIGURED.partition("[[")[2]
    for check, how in (("inputs-kept", "passed"), ("draft-law", "not applicable")):
        entry = record.replace('"joint"\nat-most = 1.0', f'"{check}"').replace("samplers:wrong", "block")
        configured.makepyprojecttoml(f"{CONFIGURED}[[{entry}")
        result = run(configured, "-k", f"block and {check}")
        result.assert_outcomes(failed=1, deselected=11)
        result.stdout.fnmatch_lines([f"block: {check}: {how}: *it is on record (issue 12): remove it from *"])


def test_subjects_of_the_pytest_configuration_and_mistakes_there(project):
    project.makeini("[pytest]\nspec_oracle_subjects = samplers:right nowhere:f")
    result = run(project, "-k", "joint")
    result.assert_outcomes(passed=1, failed=1, deselected=len(CHECKS) * 2 - 2)
    result.stdout.fnmatch_lines(["*2 subjects of tox.ini*", "*cannot import 'nowhere'*"])
    project.makepyprojecttoml("[tool.spec-oracle]\nsubjects = []")
    run(project).stderr.fnmatch_lines(["ERROR: *pyproject.toml:2: subjects: expected at least one*"])


def test_checks_of_a_subject_parametrise_a_test_and_share_what_they_compute(project):
    project.makepyfile("""
        import pytest
        import samplers
        from spec_oracle.gate import cases
        from spec_oracle.pytest_plugin import checks_of

        options = dict(draft_length=1, vocab_size=2, checks=("inputs-kept",))
        known = dict(expected={"joint": "known"}, at_most={"joint": 1})

        @pytest.mark.parametrize("check", checks_of(samplers.right, **options))
        def test_right(check, monkeypatch):
            check()
            assert check.shared.alpha == 1e-6 / 2
            monkeypatch.setattr(cases, "CHECKS", None)
            check()

        @pytest.mark.parametrize("check", checks_of("samplers:wrong", **known, **options))
        def test_wrong(check):
            check()
    """)
    run(project, "-k", "test_").assert_outcomes(passed=3, xfailed=1)


def test_what_is_left_open_fails(project):
    project.makepyfile(
        odd="def f(tokens, draft_probs, target_probs, generator): raise SystemExit('no driver')"
    )
    project.makeini("[pytest]\nspec_oracle_subjects = odd:f")
    result = run(project, "-k", "joint")
    result.assert_outcomes(failed=1, deselected=len(CHECKS) - 1)
    result.stdout.fnmatch_lines(["odd:f: joint: inconclusive: *no driver*"])
