"""One check of the suite of servers, run by name."""

from spec_oracle.audit.checks import CHECKS, run_check
from spec_oracle.servers.checks.suite import SERVER


def result_of(name, subject, context):
    return run_check(CHECKS[name], SERVER, subject, context)
