"""Which tree and which rule: exact tokens per call of published and own combinations at a budget."""

from spec_oracle.efficiency.design.combinations import combinations_of
from spec_oracle.efficiency.design.figures import DRAFTING, ORACLE, prompt_designs
from spec_oracle.efficiency.design.summary import Costs, Design, Row, design
from verifiers import Drafting

INDEPENDENT = DRAFTING[Drafting.INDEPENDENT]

__all__ = [
    "INDEPENDENT",
    "ORACLE",
    "Costs",
    "Design",
    "Row",
    "combinations_of",
    "design",
    "prompt_designs",
]
