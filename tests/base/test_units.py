"""Units at the door: what is read, as what number, and how the registry keeps its units apart."""

import contextlib
import math
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amped.base.errors import UnitError
from amped.base.units import COMMON, DIMENSIONLESS, PREFIXES, factor, parse, registry

CANONICAL = ("byte", "byte/s", "Hz", "s", "flop/s", "flop", "W", "J", "dollar", "dollar/s", "count", "1")
# Units of the same dimension: every two of a line convert into one another.
FAMILIES = (
    ("byte", "B", "bit", "b", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "Gbit"),
    ("byte/s", "GB/s", "Gbit/s", "Gb/s", "Gbps", "TB/s", "MB/hour"),
    ("s", "ms", "us", "ns", "minute", "hour", "day", "year"),
    ("Hz", "MHz", "GHz", "1/s"),
    ("flop/s", "TFLOP/s", "TFLOPS", "Pflop/s"),
    ("W", "kW", "J/s", "MW"),
    ("J", "kJ", "Wh", "kWh"),
    ("dollar/s", "USD/hour", "dollar/day"),
)

WRITTEN = [
    (8, "byte", 8.0),
    (0.5, "1", 0.5),
    (-3, "count", -3.0),
    (2**70, "count", 2.0**70),
    ("16", "count", 16.0),
    ("8 GB", "byte", 8e9),
    ("8GB", "byte", 8e9),
    ("  8   GB ", "byte", 8e9),
    ("+8 GB", "byte", 8e9),
    ("-8 GB", "byte", -8e9),
    ("80 GiB", "byte", 80 * 2.0**30),
    ("96 KiB", "byte", 96 * 1024.0),
    ("8 kB", "byte", 8e3),
    ("8 KB", "byte", 8e3),
    ("1 EB", "byte", 1e18),
    ("1.41 GHz", "Hz", 1.41e9),
    ("1410 MHz", "Hz", 1.41e9),
    ("900 GB/s", "byte/s", 900e9),
    ("3.35 TB/s", "byte/s", 3.35e12),
    ("5 us", "s", 5e-6),
    ("5 µs", "s", 5e-6),
    ("5 μs", "s", 5e-6),
    ("20 ns", "s", 20e-9),
    ("3 ms", "s", 3e-3),
    ("2 hour", "s", 7200.0),
    ("1 day", "s", 86400.0),
    ("312 TFLOP/s", "flop/s", 312e12),
    ("312 TFLOPS", "flop/s", 312e12),
    ("400 W", "W", 400.0),
    ("3.5 kW", "W", 3500.0),
    ("1 kWh", "J", 3.6e6),
    ("1000 USD", "dollar", 1000.0),
    ("2.5 USD/hour", "dollar/s", 2.5 / 3600),
    ("7.2 dollar/hour", "dollar/s", 0.002),
    (".5", "1", 0.5),
    ("5.", "1", 5.0),
    ("1e3", "count", 1e3),
    ("2.5E-3", "1", 2.5e-3),
    ("1e11", "count", 1e11),
    ("1_000_000", "count", 1e6),
]


def same(one, other):
    """Equal but for the rounding of the few products in which they were computed."""
    return math.isclose(one, other, rel_tol=8 * sys.float_info.epsilon, abs_tol=0.0)


class TestWhatIsRead:
    @pytest.mark.parametrize(
        ("written", "canonical", "number"),
        WRITTEN,
    )
    def test_numbers_and_numbers_with_units(self, written, canonical, number):
        assert same(parse(written, canonical), number)

    @pytest.mark.parametrize(
        ("written", "canonical", "number"),
        [
            ("8 G", "byte", 8e9),
            ("300 G", "count", 300e9),
            ("8 k", "count", 8e3),
            ("8 K", "count", 8e3),
            ("2.4 T", "byte/s", 2.4e12),
            ("1.41 G", "Hz", 1.41e9),
            ("3.4 u", "s", 3.4e-6),
            ("20 n", "s", 20e-9),
            ("8 m", "s", 8e-3),
            ("7 M", "1", 7e6),
            ("1 P", "flop/s", 1e15),
        ],
    )
    def test_a_prefix_alone_scales_the_canonical_unit(self, written, canonical, number):
        assert same(parse(written, canonical), number)

    @pytest.mark.parametrize(("upper", "lower"), [("8 GB", "8 Gb"), ("1 B", "1 b"), ("900 GB/s", "900 Gb/s")])
    def test_capital_b_is_a_byte_and_small_b_a_bit(self, upper, lower):
        canonical = "byte/s" if "/s" in upper else "byte"
        assert parse(upper, canonical) == 8 * parse(lower, canonical)

    @pytest.mark.parametrize("written", ["200 Gbit/s", "200 Gb/s", "200 Gbps", "200000 Mbit/s", "0.2 Tbit/s"])
    def test_network_rates_in_bits_become_bytes(self, written):
        assert same(parse(written, "byte/s"), 25e9)

    @pytest.mark.parametrize(
        ("written", "number"),
        [(16, 2.0), ("16", 2.0), ("16 bit", 2.0), ("2 byte", 2.0), ("2 B", 2.0), (4, 0.5), ("0.032 k", 4.0)],
    )
    def test_a_bare_precision_is_in_bits_and_a_unit_overrules_that(self, written, number):
        assert same(parse(written, "byte", bare="bit"), number)

    def test_a_bare_price_is_an_hour_s(self):
        assert same(parse(3.6, "dollar/s", bare="dollar/hour"), 0.001)
        assert same(parse("1 USD/s", "dollar/s", bare="dollar/hour"), 1.0)


class TestTrapsOfTheRegistry:
    def test_byte_is_a_dimension_and_stays_one_in_base_units(self):
        base = registry().Quantity(1.0, "byte").to_base_units()
        assert (base.magnitude, str(base.units), base.dimensionless) == (1.0, "byte", False)

    def test_b_is_a_bit_and_no_barn(self):
        assert factor("b", "byte") == 0.125
        assert factor("B", "bit") == 8.0

    @pytest.mark.parametrize("unit", ["flop", "FLOP"])
    def test_flop_is_known_and_is_no_count(self, unit):
        assert factor(unit, "flop") == 1.0
        with pytest.raises(UnitError, match=f"'{unit}' is not a unit of a plain count"):
            factor(unit, "count")

    @pytest.mark.parametrize(("unit", "other"), [("byte", "flop"), ("byte", "dollar"), ("J", "flop"), ("dollar", "s")])
    def test_byte_flop_joule_dollar_and_second_are_independent(self, unit, other):
        with pytest.raises(UnitError, match="is not a unit of"):
            factor(unit, other)

    @pytest.mark.parametrize("unit", ["parsec", "barn", "meter", "kelvin", "mole", "pint", "radian", "inch", "pi"])
    def test_pint_s_own_units_are_absent(self, unit):
        with pytest.raises(UnitError, match=f"unknown unit '{unit}'"):
            factor(unit, "byte")

    def test_rounding_up_a_ratio_of_bytes_sees_the_prefix(self):
        ratio = registry().Quantity(1.5, "kB") / registry().Quantity(1.0, "B")
        assert ratio.to("dimensionless").magnitude == 1500.0

    @pytest.mark.parametrize("unit", ["2**9", "1/0", "__import__('os')", "3", "3 byte", "byte**", "(", "\x00"])
    def test_text_that_is_no_unit(self, unit):
        with pytest.raises(UnitError):
            factor(unit, "byte")

    def test_counts_and_ratios_are_plain_numbers(self):
        assert [factor("", canonical) for canonical in DIMENSIONLESS] == [1.0, 1.0, 1.0]


class TestTheTableOfCommonUnits:
    @pytest.mark.parametrize(("canonical", "unit"), [(c, u) for c, units in COMMON.items() for u in units])
    def test_its_factors_are_pint_s_to_the_last_bit(self, canonical, unit):
        assert COMMON[canonical][unit] == float(registry().Quantity(1.0, unit).to(canonical).magnitude)

    def test_what_it_does_not_have_is_asked_of_pint(self):
        assert "hour" not in COMMON["s"]
        assert factor("hour", "s") == 3600.0
        with pytest.raises(UnitError, match="'GB' is not a unit of time"):
            factor("GB", "s")


class TestProperties:
    numbers = st.floats(min_value=1e-6, max_value=1e6)

    @given(
        numbers, st.sampled_from(sorted(PREFIXES)), st.sampled_from(("byte", "s", "Hz", "flop/s", "W", "count", "1"))
    )
    def test_a_prefix_alone_multiplies(self, number, prefix, canonical):
        assert same(parse(f"{number!r} {prefix}", canonical), number * PREFIXES[prefix])

    @given(
        numbers,
        st.sampled_from(sorted(PREFIXES)),
        st.sampled_from((("byte", "B"), ("s", "s"), ("Hz", "Hz"), ("flop/s", "flop/s"))),
    )
    def test_a_prefix_before_a_unit_multiplies(self, number, prefix, pair):
        canonical, unit = pair
        assert same(parse(f"{number!r} {prefix}{unit}", canonical), number * PREFIXES[prefix])

    @given(numbers)
    def test_gigabytes_are_billions_of_bytes(self, number):
        assert same(parse(f"{number!r} GB", "byte"), number * 1e9)

    @given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(CANONICAL))
    def test_a_bare_number_is_itself_as_number_and_as_text(self, number, canonical):
        assert parse(number, canonical) == number
        assert parse(f"{number!r}", canonical) == number

    @given(st.integers(min_value=-(2**200), max_value=2**200))
    def test_an_integer_becomes_the_nearest_float(self, number):
        assert parse(number, "count") == float(number)

    @given(st.sampled_from(FAMILIES).flatmap(lambda units: st.tuples(st.sampled_from(units), st.sampled_from(units))))
    def test_there_and_back_is_one(self, units):
        one, other = units
        assert same(factor(one, other) * factor(other, one), 1.0)

    @given(st.sampled_from(FAMILIES).flatmap(lambda units: st.tuples(*[st.sampled_from(units)] * 3)))
    def test_a_detour_changes_nothing(self, units):
        one, other, third = units
        assert same(factor(one, other) * factor(other, third), factor(one, third))

    @given(st.text(max_size=120), st.sampled_from(CANONICAL))
    @example("8 \ud800", "byte")
    @example("٣ GB", "byte")
    def test_any_text_is_a_number_or_an_error_of_ours(self, text, canonical):
        assert self.finite_or_ours(text, canonical)

    @given(st.from_regex(r"[+-]?[0-9.,_eE]{1,12} ?[A-Za-zµμ%/*^()]{0,12}", fullmatch=True), st.sampled_from(CANONICAL))
    def test_text_that_almost_is_a_quantity_is_one_or_an_error_of_ours(self, text, canonical):
        assert self.finite_or_ours(text, canonical)

    @given(st.text(max_size=40), st.sampled_from(CANONICAL))
    def test_any_unit_has_a_factor_or_an_error_of_ours(self, unit, canonical):
        with contextlib.suppress(UnitError):
            assert math.isfinite(factor(unit, canonical))

    @staticmethod
    def finite_or_ours(text, canonical):
        """Whether the text is a finite number, or what is wrong with it is told; any other exception is a failure."""
        try:
            return math.isfinite(parse(text, canonical))
        except UnitError as error:
            return all(problem.what for problem in error.problems)
