"""Which tree and which rule: exact tokens per call of published and own combinations at a budget."""

from lab.design.combinations import combinations_of
from lab.design.figures import DRAFTING, ORACLE, prompt_designs
from lab.design.summary import Costs, Design, Row, design
from verifiers import Siblings

INDEPENDENT = DRAFTING[Siblings.INDEPENDENT]

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
