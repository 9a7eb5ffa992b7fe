"""The specimens: enough of them, each traceable, each control there."""

from spec_oracle.specimens.registry import specimens
from spec_oracle.specimens.sources import MUTANT

FAULTY = [specimen for specimen in specimens().values() if not specimen.is_control]
CONTROLS = [specimen for specimen in specimens().values() if specimen.is_control]


def test_at_least_sixty_different_defects():
    assert len({(specimen.zoo_id, specimen.kind) for specimen in FAULTY}) >= 60


def test_every_control_of_the_catalogue_is_there():
    assert {f"N{number}" for number in range(1, 11)} <= {specimen.zoo_id for specimen in CONTROLS}


def test_every_specimen_names_its_source_and_defect():
    for specimen in specimens().values():
        assert specimen.source == MUTANT or specimen.source.startswith("https://github.com/")
        assert specimen.defect


def test_every_specimen_is_exactly_one_kind_of_subject():
    for specimen in specimens().values():
        assert sum(x is not None for x in (specimen.verifier, specimen.function, specimen.system)) == 1
