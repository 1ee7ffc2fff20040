"""What the catalogue refuses: formulas that nothing feeds, that tie, or that contradict one another."""

import sys

import pytest

from amped.base.errors import WiringError
from amped.theory.language import catalogue as collecting
from amped.theory.language.catalogue import Catalogue, catalogue, collect
from amped.theory.language.quantity import Mark, parameter, quantity, records, selector
from amped.theory.nouns.records import Record
from tests.helpers.formulas import module_of


def built_of(*functions: object) -> Catalogue:
    return Catalogue(collect(module_of(*functions)))


def test_the_formulas_of_amped_itself_are_refused_nothing():
    every = [formula for own in catalogue().values() for formula in own.formulas]
    assert [*Catalogue(every)] == [*catalogue()]


def test_an_argument_that_nothing_gives_is_refused_with_the_nearest_name() -> None:
    @parameter("count")
    def layers() -> int:
        """Layers. Source: test."""
        return 2

    @quantity("count")
    def doubled(layerz: object) -> object:
        """Twice. Source: test."""
        return layerz

    with pytest.raises(WiringError, match=r"(?s)'doubled' needs 'layerz', which nothing gives.*did you mean 'layers'"):
        built_of(layers, doubled)


def test_a_selector_as_an_argument_is_refused() -> None:
    @selector("left", "right")
    def side() -> str:
        """Side. Source: test."""
        return "left"

    @quantity("1")
    def sum_of_sides(side: object) -> object:
        """Sum. Source: test."""
        return side

    with pytest.raises(WiringError, match="'sum_of_sides' takes the selector 'side' as an argument"):
        built_of(side, sum_of_sides)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {}),
        ({"when_given": ("left",)}, {"when_given": ("right",)}),
        ({"when_given": ("left",)}, {"choice": "side", "value": "far"}),
        ({"when_any_given": ("left", "right")}, {"when_given": ("left",)}),
    ],
)
def test_alternatives_that_tie_are_refused(one: dict[str, object], other: dict[str, object]) -> None:
    def leaf(name: str, mark: Mark) -> object:
        def function() -> None:
            """Leaf. Source: test."""

        function.__name__, function.__amped_mark__ = name, mark  # type: ignore[attr-defined]
        return function

    leaves = [leaf("left", Mark("parameter", "count")), leaf("right", Mark("parameter", "count"))]
    leaves.append(leaf("side", Mark("parameter", "choice", choices=("near", "far"))))
    pair = [leaf("width__a", Mark("quantity", "count", **one)), leaf("width__b", Mark("quantity", "count", **other))]
    with pytest.raises(WiringError, match="'width__a' and 'width__b' can apply at once"):
        built_of(*leaves, *pair)


def test_a_tie_below_a_more_specific_alternative_is_none() -> None:
    known = catalogue()
    of_parts = known["tensor_parallel_degree"].chosen(
        frozenset({"intra_node_tensor_parallel_degree", "inter_node_tensor_parallel_degree"}), {}
    )
    assert of_parts is not None
    assert of_parts.variant == "of_parts"


def test_alternatives_of_different_units_are_refused() -> None:
    @quantity("s")
    def duration() -> int:
        """Duration. Source: test."""
        return 1

    @quantity("byte", when_given=("duration",))
    def duration__in_bytes() -> int:
        """Duration. Source: test."""
        return 1

    with pytest.raises(WiringError, match="the alternatives of 'duration' have different units"):
        built_of(duration, duration__in_bytes)


def test_all_that_is_wrong_with_a_catalogue_is_told_at_once() -> None:
    @quantity("s")
    def one(missing: object) -> object:
        """One. Source: test."""
        return missing

    @records()
    def other(absent: object) -> tuple[Record, ...]:
        """Other. Source: test."""
        return (Record("other"),)

    with pytest.raises(WiringError) as refusal:
        built_of(one, other)
    assert len(refusal.value.problems) == 2


def test_the_same_name_on_two_pages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @parameter("count")
    def layers() -> int:
        """Layers again. Source: test."""
        return 3

    page = module_of(layers, name="amped.theory.second_thoughts")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    monkeypatch.setattr(collecting, "CHAPTERS", (*collecting.CHAPTERS, "second_thoughts"))
    with pytest.raises(WiringError, match="'layers' stands on two pages: inputs/network and second_thoughts"):
        collecting._catalogue.__wrapped__(())
