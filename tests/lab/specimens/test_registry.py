"""The specimens: enough of them, each traceable, each control there, each declared with fields that fit."""

import subprocess
import sys
from dataclasses import replace

import pytest

from lab.kill_matrix.columns import YARDSTICK, columns_of
from lab.specimens.catalogue import MUTANT, catalogue
from lab.specimens.registry import specimens
from lab.specimens.specimen import EXACT, itself, specimen
from spec_oracle.audit.checks import CHECKS
from spec_oracle.errors import InvalidInputError
from tests.strategies import at_night

ALL = [found for paths in (1, 2) for found in specimens(num_paths=paths).values()]
PLANTED = [found for found in ALL if found.catalogue_id in catalogue()]
FAULTY = [found for found in specimens().values() if not found.is_control]
ALWAYS_ACCEPT = specimens()["always-accept"]


def test_the_matrix_has_enough_specimens_of_enough_defects():
    assert len(FAULTY) >= 120
    assert len({found.catalogue_id for found in FAULTY} - {MUTANT}) >= 78


def test_every_control_of_the_catalogue_is_there():
    controls = {number for number, entry in catalogue().items() if entry.is_control}
    assert controls <= {found.catalogue_id for found in ALL if found.is_control}


def test_every_detecting_check_is_one_that_its_entry_asks_for():
    assert {check for found in ALL for check in found.detected_by} <= {*CHECKS, EXACT}
    for found in PLANTED:
        assert {*found.detected_by} <= {*catalogue()[found.catalogue_id].checks}, found.name


def test_every_specimen_can_be_sent_to_another_process():
    cloudpickle = pytest.importorskip("cloudpickle")
    for found in ALL:
        assert cloudpickle.loads(cloudpickle.dumps(found)).name == found.name


def test_every_specimen_leads_to_a_thread_or_is_ours():
    assert {found.source for found in ALL if found not in PLANTED} == {MUTANT}
    for found in PLANTED:
        threads = catalogue()[found.catalogue_id].links
        assert found.source == (threads[0] if threads else MUTANT)
    assert all(found.defect for found in ALL)


SAID = [(f, catalogue()[f.catalogue_id].first_token) for f in FAULTY if f.catalogue_id in catalogue()]


def first_of_each():
    """Yield the first specimen of each class of defects that the first token shows, and that it does not.

    No engines with caches, whose runs take long.
    """
    kinds = set()
    for found, said in SAID:
        kind = found.catalogue_id[0], found.kind, said
        if kind not in kinds and not found.name.startswith("cached-"):
            kinds.add(kind)
            yield found.name


BY_DAY = {*first_of_each()}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(f, said, id=f.name, marks=() if f.name in BY_DAY else pytest.mark.nightly)
        for f, said in SAID
        if said != "depends"
    ],
)
def test_the_first_token_shows_what_the_catalogue_says(found, said):
    """One test at 1e-6 on a fixed seed; what "depends" may be seen here or not."""
    seen = columns_of(found, 1e-6, 0)[YARDSTICK]().status == "failed"
    assert seen == (said == "yes")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"function": None},
            r"rule, function, engine, tree_sampler: \[\] of specimen 'always-accept'; expected exactly",
        ),
        (
            {"engine": ALWAYS_ACCEPT.function},
            r"rule, function, engine, tree_sampler: \['function', 'engine'\]",
        ),
        ({"catalogue_id": "A99"}, "catalogue_id: 'A99' of specimen 'always-accept'; not in the catalogue"),
        (
            {"detected_by": ("joint", "jiont")},
            r"detected_by: \['jiont'\] of specimen 'always-accept'; known ones are",
        ),
        (
            {"detected_by": ()},
            r"detected_by: \(\) of specimen 'always-accept'; a control has none, a defect some",
        ),
        ({"catalogue_id": "N1"}, "detected_by: "),
        ({"array": "pytorch"}, "array: 'pytorch' of specimen 'always-accept'; expected 'numpy' or 'torch'"),
        ({"declared": "tokens"}, "declared: 'tokens' of specimen 'always-accept'; known ones are token"),
        ({"num_paths": 0}, "num_paths: 0 of specimen 'always-accept'; expected at least 1"),
    ],
)
def test_fields_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        replace(ALWAYS_ACCEPT, **wrong)


def test_a_name_is_registered_once():
    def always_accept(draft_tokens, draft_probs, target_probs, generator):
        raise AssertionError("never called")

    with pytest.raises(InvalidInputError, match="specimen: 'always-accept' is there twice"):
        specimen("A1", "joint", function=itself)(always_accept)
    assert specimens()["always-accept"] is ALWAYS_ACCEPT


@pytest.mark.parametrize("module", ["lab.specimens.registry", *at_night("lab.specimens.foreign.defects")])
def test_import_does_not_load_torch(module):
    code = f"import sys, {module}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
