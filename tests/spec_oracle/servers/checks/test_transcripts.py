"""Recorded completions: what a line says of the server that it came from."""

from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.transcripts import Transcripts, line_of, read_all
from spec_oracle.servers.client.server import connect
from tests.spec_oracle.servers.client.stand_in import InProcess, StandIn


def test_a_record_says_how_much_the_server_differs():
    """What one request rules out, another one may let through there: that is no proof offline either."""
    found = Distributions(connect(InProcess(StandIn()), Sampling(top_k=3), prompts=["bc"]))
    found.noise, found.differ = 0.0, [0.02] * 64
    found.fetch([(0, ())])
    (line,) = read_all([line_of((0, (1, 2)), found, None)])
    assert 0.005 < line.noise < 0.02
    assert Transcripts([line]).judged.distributions.is_noisy
