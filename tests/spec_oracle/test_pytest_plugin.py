"""The pytest plugin, as a project that uses it would: in a pytest run of its own."""

import pytest

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

        def test_misspelt(assert_lossless):
            assert_lossless("samplers:rihgt")
    """)
    project._monkeypatch.setenv("COLUMNS", "300")
    result = run(project)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        ["*reproduce: spec-oracle audit*", "*smallest counterexample*", "FAILED*lossy: joint failed: *"]
    )
    result.stdout.fnmatch_lines(["*expected one call of assert_lossless*"])
    result.stdout.fnmatch_lines(
        ["* test_misspelt *", "subject: 'samplers' has no 'rihgt': *", "==*summary*"], consecutive=True
    )


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
subjects = ["samplers:right", "samplers:wrong"]
draft-length = 1
vocab-size = 2
checks = ["inputs-kept", "bad-input"]

[[tool.spec-oracle.expected-failures]]
subject = "samplers:wrong"
check = "joint"
at-most = 1.0
reason = "issue 12"
"""

OF_EACH = """
import pytest
from spec_oracle.pytest_plugin import checks_of

@pytest.mark.parametrize("check", checks_of("samplers:right"))
def test_right(check):
    check()

@pytest.mark.parametrize("check", checks_of("samplers:wrong"))
def test_wrong(check):
    check()
"""


@pytest.fixture
def configured(project):
    project.makepyprojecttoml(CONFIGURED)
    project.makepyfile(OF_EACH)
    return project


@pytest.mark.parametrize("layout", [("-n", "1"), *at_night((("-p", "no:xdist"),), (("-n", "2"),))])
def test_a_check_is_a_test_with_the_options_of_the_configuration(configured, layout):
    result = run(configured, *layout)
    result.assert_outcomes(passed=4, xfailed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "samplers:wrong: bad-input: failed: *",
            "  reproduce: *samplers:wrong --instance */samplers-wrong-bad-input.json *--alpha 5*e-07",
        ],
        consecutive=False,
    )


def test_the_configuration_alone_makes_no_tests(project):
    """Its subjects are audited by the command; a test that names them audits them once."""
    project.makepyprojecttoml(CONFIGURED)
    project.makepyfile("def test_nothing(): pass")
    run(project).assert_outcomes(passed=1)


def test_a_selection_of_checks_has_the_results_of_the_whole_run(configured):
    line = "  reproduce: *samplers:wrong --instance */samplers-wrong-bad-input.json *--alpha 5*e-07"
    for words, outcomes in (
        (["-k", "wrong and bad-input"], {"failed": 1, "deselected": 5}),
        (["--runxfail", "-k", "wrong and joint"], {"failed": 1, "deselected": 5}),
    ):
        result = run(configured, *words)
        result.assert_outcomes(**outcomes)
        if "--runxfail" not in words:
            result.stdout.fnmatch_lines([line])
    result.stdout.fnmatch_lines(["  reproduce: * --instance counterexamples/*", "*smallest counterexample*"])


def test_an_entry_that_passes_fails(configured):
    record = CONFIGURED.partition("[[")[2].replace('"joint"\nat-most = 1.0', '"inputs-kept"')
    configured.makepyprojecttoml(f"{CONFIGURED}[[{record.replace('samplers:wrong', 'samplers:right')}")
    result = run(configured, "-k", "right and inputs-kept")
    result.assert_outcomes(failed=1, deselected=5)
    result.stdout.fnmatch_lines(
        ["samplers:right: inputs-kept: passed: *it is on record (issue 12): remove it from *"]
    )


def test_mistakes_of_names_and_of_the_configuration(configured):
    configured.makepyfile(
        test_names="""
        import pytest
        from spec_oracle.pytest_plugin import checks_of

        @pytest.mark.parametrize("check", checks_of("nowhere:f", checks=()))
        def test_nowhere(check):
            check()
        """
    )
    result = run(configured, "-k", "nowhere")
    result.assert_outcomes(failed=1, deselected=6)
    result.stdout.fnmatch_lines(["*cannot import 'nowhere'*"])
    configured.makepyprojecttoml("[tool.spec-oracle]\nsubjects = []")
    run(configured).stdout.fnmatch_lines(["*pyproject.toml:2: subjects: expected at least one*"])


def test_checks_of_a_subject_parametrise_a_test_and_share_what_they_compute(project):
    project.makepyfile("""
        import pytest
        import samplers
        import spec_oracle.audit
        from spec_oracle.pytest_plugin import checks_of

        options = dict(draft_length=1, vocab_size=2, checks=("inputs-kept",))
        known = dict(expected={"joint": "known"}, at_most={"joint": 1})

        @pytest.mark.parametrize("check", checks_of(samplers.right, **options))
        def test_right(check, monkeypatch):
            check()
            assert check.shared.options.alpha == 1e-6 / 2
            monkeypatch.setattr(spec_oracle.audit, "audit", None)
            check()

        @pytest.mark.parametrize("check", checks_of("samplers:wrong", **known, **options))
        def test_wrong(check):
            check()
    """)
    run(project, "-k", "test_").assert_outcomes(passed=3, xfailed=1)


def test_an_open_check_fails_its_test(project):
    project.makepyfile(
        odd="def f(tokens, draft_probs, target_probs, generator): raise SystemExit('no driver')",
        test_odd="""
        import pytest
        from spec_oracle.pytest_plugin import checks_of

        @pytest.mark.parametrize("check", checks_of("odd:f", checks=()))
        def test_odd(check):
            check()
        """,
    )
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["odd:f: joint: inconclusive: *no driver*"])
