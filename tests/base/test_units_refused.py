"""Units at the door: what is refused, and with which words."""

import math

import pytest

from amped.base.errors import UnitError
from amped.base.units import parse


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "written",
        ["8 parsecs", "8 parsec", "8 barn", "8 meter", "8 kg", "8 kelvin", "8 radian", "8 pi", "8 count", "8 token",
         "8 gb", "8 Mo", "8 kk", "8 kkB", "8 yB", "50 %", "8 nan", "8 inf", "8 lambda", "8 None", "8 not", "8 e"],
    )  # fmt: skip
    @pytest.mark.parametrize("canonical", ["byte", "count"])
    def test_units_that_nobody_declared(self, written, canonical):
        with pytest.raises(UnitError, match="unit") as caught:
            parse(written, canonical)
        assert written.split()[1] in str(caught.value)
        assert "expected" in str(caught.value)

    @pytest.mark.parametrize(
        ("written", "canonical", "expected"),
        [
            ("8 s", "byte", 'expected memory (byte), for example "80 GB"'),
            ("8 GB", "s", 'expected time (s), for example "5 us"'),
            ("8 GB", "byte/s", 'expected bandwidth (byte/s), for example "900 GB/s"'),
            ("8 GB/s", "byte", 'expected memory (byte), for example "80 GB"'),
            ("1 GHz", "flop/s", 'expected compute rate (flop/s), for example "312 TFLOP/s"'),
            ("1 TFLOP/s", "Hz", 'expected frequency (Hz), for example "1.41 GHz"'),
            ("1 J", "W", 'expected power (W), for example "400 W"'),
            ("8 GB", "count", "expected a plain number"),
            ("8 s", "1", "expected a plain number"),
            ("8 W", "J", "expected J"),
            ("8 USD", "dollar/s", '"2.5 USD/hour"'),
        ],
    )
    def test_units_of_another_dimension_with_what_was_expected(self, written, canonical, expected):
        with pytest.raises(UnitError) as caught:
            parse(written, canonical)
        assert f"'{written.split()[1]}' is not a unit of" in str(caught.value)
        assert expected in str(caught.value)

    @pytest.mark.parametrize("written", [math.nan, math.inf, -math.inf, "1e400", "-1e400", "1e9999"])
    def test_numbers_that_are_not_finite(self, written):
        with pytest.raises(UnitError, match="not a finite number"):
            parse(written, "byte")

    @pytest.mark.parametrize(
        ("written", "canonical"), [(10**400, "count"), ("1e305 GB", "byte"), ("1e300 P", "flop/s")]
    )
    def test_numbers_that_are_too_large(self, written, canonical):
        with pytest.raises(UnitError, match=r"too large|not a finite number"):
            parse(written, canonical)

    def test_an_integer_of_more_digits_than_python_prints(self):
        with pytest.raises(UnitError, match="too large"):
            parse(10**5000, "count")

    @pytest.mark.parametrize("written", ["nan", "NaN", "inf", "Infinity", "-inf"])
    def test_the_words_for_no_number(self, written):
        with pytest.raises(UnitError, match="not a number with a unit"):
            parse(written, "count")

    @pytest.mark.parametrize("written", [True, False, None, [8], [], {"a": 1}, {}, (8,), 8j, b"8"])
    def test_what_is_neither_number_nor_text(self, written):
        with pytest.raises(UnitError, match="is not a number"):
            parse(written, "byte")

    @pytest.mark.parametrize(
        "written",
        [
            "__import__('os')",
            "__import__('os').system('true')",
            "2**9**9",
            "9**9**9**9 GB",
            "2 ** 3",
            "1+1",
            "8*2 GB",
            "(8) GB",
            "8 B**2",
            "8 B^2",
            "lambda: 8",
            "[8]",
            "{8}",
            "8; 9",
            "f'8'",
            "0x10",
            "0b1",
            "1 if 1 else 2",
            "8 GB GB",
        ],
    )
    def test_text_that_is_code_is_told_back_and_not_run(self, written):
        with pytest.raises(UnitError, match="not a number with a unit"):
            parse(written, "count")

    @pytest.mark.parametrize(
        "written",
        ["", " ", "GB", "many", "8 GB 8", "8..5", "--8", "1,0", "1,00,000", "1 000", "8 GB extra", "8 /s", "8 /"],
    )
    def test_text_that_is_no_number(self, written):
        with pytest.raises(UnitError, match="not a number with a unit"):
            parse(written, "byte")

    @pytest.mark.parametrize("written", ["8 GB/", "8 GB//s", "8 GB///s"])
    def test_a_unit_with_a_slash_too_many(self, written):
        with pytest.raises(UnitError, match="is not a number with a unit"):
            parse(written, "byte/s")

    @pytest.mark.parametrize("written", ["x" * 10**7, "9" * 10**7, "8 " + "G" * 10**6, " " * 10**6])
    def test_megabytes_of_text_are_refused_in_a_short_message(self, written):
        with pytest.raises(UnitError) as caught:
            parse(written, "count")
        assert len(str(caught.value)) < 300
        assert f"({len(written) + 2} characters)" in str(caught.value)
