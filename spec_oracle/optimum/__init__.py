"""The best that any lossless verifier can reach, in rationals, with certificates and their checker."""

from spec_oracle.optimum.certificates import (
    CertificateError,
    Optimum,
    SelectionCertificate,
    TransportCertificate,
    check_certificate,
)
from spec_oracle.optimum.optima import (
    ROUNDING,
    ProvenBound,
    block_transport_optimum,
    checked_optima,
    multi_path_optimum,
    proven_bound,
    single_path_optimum,
    tree_optimum,
)

__all__ = [
    "ROUNDING",
    "CertificateError",
    "Optimum",
    "ProvenBound",
    "SelectionCertificate",
    "TransportCertificate",
    "block_transport_optimum",
    "check_certificate",
    "checked_optima",
    "multi_path_optimum",
    "proven_bound",
    "single_path_optimum",
    "tree_optimum",
]
