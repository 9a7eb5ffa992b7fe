"""The best that any lossless verifier can reach, in rationals, with certificates and their checker."""

from spec_oracle.optimum.certificates import (
    AcceptanceCertificate,
    Optimum,
    SelectionCertificate,
    SinglePathCertificate,
    TransportCertificate,
)
from spec_oracle.optimum.check import CertificateError, check_certificate
from spec_oracle.optimum.optima import (
    block_transport_optimum,
    checked_optima,
    multi_path_optimum,
    optimal_acceptance,
    single_path_optimum,
    tree_optimum,
)
from spec_oracle.optimum.proven_bound import ROUNDING, ProvenBound, proven_bound

__all__ = [
    "ROUNDING",
    "AcceptanceCertificate",
    "CertificateError",
    "Optimum",
    "ProvenBound",
    "SelectionCertificate",
    "SinglePathCertificate",
    "TransportCertificate",
    "block_transport_optimum",
    "check_certificate",
    "checked_optima",
    "multi_path_optimum",
    "optimal_acceptance",
    "proven_bound",
    "single_path_optimum",
    "tree_optimum",
]
