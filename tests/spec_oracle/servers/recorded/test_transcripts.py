"""Recorded completions: what a line says of the server that it came from."""

from spec_oracle.audit import SubjectVerdict
from spec_oracle.audit.results import passed
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.recorded import checks
from spec_oracle.servers.recorded.checks import Transcripts
from spec_oracle.servers.recorded.transcripts import line_of, read_all
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of


def test_a_record_says_how_much_the_server_differs():
    """What one request rules out, another one may let through there: that is no proof offline either."""
    found = Distributions(server_of(StandIn(), top_k=3, prompts=["bc"]))
    found.noise, found.differ = 0.0, [0.02] * 64
    found.fetch([(0, ())])
    (line,) = read_all([line_of((0, (1, 2)), found, None)])
    assert 0.005 < line.noise < 0.02
    assert Transcripts([line]).judged.distributions.is_noisy


def test_a_model_that_may_be_another_one_leaves_the_verdict_open(monkeypatch):
    """Its distributions differ by 0.04 on average for certain, but not for certain by more than 0.041."""
    found = Distributions(server_of(StandIn(), top_k=3, prompts=["bc"]))
    found.fetch([(0, ())])
    read = Transcripts(read_all([line_of((0, (1, 2)), found, None)]), rows=lambda *_: [])
    monkeypatch.setattr(checks, "result_of_tokens", lambda *_, **__: passed("as expected"))
    read._distances.distances += [0.03, 0.05] * 100
    assert read.report("f", 1e-6, 0.041).verdict is SubjectVerdict.INCONCLUSIVE
    assert read.report("f", 1e-6, 0.05).verdict is SubjectVerdict.LOSSLESS
