"""Where equal requests differ a little, a seed need not repeat each completion; it must repeat most."""

import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.servers.checks.streams import repeats
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of


class Tips(StandIn):
    """Computes in another order at times: of ``each`` seeded completions one is another one."""

    each, asked = 24, 0

    def respond(self, path, body, name=""):
        self.asked += "seed" in (body or {})
        if "seed" in (body or {}) and self.asked % self.each == 0:
            body = {**body, "seed": body["seed"] + 1}
        return super().respond(path, body, name)


@pytest.mark.parametrize(
    ("noise", "each", "status"),
    [
        (0.0, 24, Status.FAILED),  # whatever is the same each time must repeat
        (1e-3, 24, Status.PASSED),
        (1e-3, 2, Status.FAILED),
        (0.1, 2, Status.INCONCLUSIVE),
    ],
)
def test_noise_explains_a_few_completions_that_a_seed_does_not_repeat(noise, each, status):
    stand_in = Tips()
    stand_in.each = each
    subject = ServerSubject("here", server_of(stand_in, top_k=3), ServerPlan(detect=0.2))
    subject.distributions.noise = noise
    context = Context()
    found = repeats(subject, context.stream("seeds"), 10.0, 1e-7)
    assert found.status is status
