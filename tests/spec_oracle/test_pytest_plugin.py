"""The pytest plugin, as a project that uses it would: in a pytest run of its own."""

import pytest

pytest_plugins = ["pytester"]

SAMPLERS = """
import numpy as np
import verifiers
from spec_oracle.plain import as_plain

right = as_plain(verifiers.get("token"))

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
    return project.runpytest_subprocess("-p", "spec_oracle.pytest_plugin", *arguments)


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


@pytest.mark.parametrize("layout", [("-p", "no:xdist"), ("-n", "2")])
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
