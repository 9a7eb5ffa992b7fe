"""All optima of an instance at once, each with its certificate checked."""

from typing import Any

from spec_oracle.optimum.certificates import Optimum
from spec_oracle.optimum.check import check_certificate
from spec_oracle.optimum.multi_path import block_transport_optimum, multi_path_optimum
from spec_oracle.optimum.single_path import single_path_optimum
from spec_oracle.toy import Instance


def checked_optima(instance: Instance, *, exact: bool = False) -> dict[str, Optimum[Any]]:
    """Return the optima by name, for independent paths; raises `CertificateError` if a certificate fails."""
    found: dict[str, Optimum[Any]] = {
        "single_path": single_path_optimum(instance, exact=exact),
        "multi_path": multi_path_optimum(instance, exact=exact),
        "block_transport": block_transport_optimum(instance, exact=exact),
    }
    for optimum in found.values():
        check_certificate(instance, optimum.certificate)
    return found
