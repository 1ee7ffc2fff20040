"""Configs of any content: sources, or an error of ours."""

from hypothesis import given, settings
from hypothesis import strategies as st

from amped.base.aliases import aliases
from amped.base.errors import AmpedError
from amped.configuring.config import read_config
from amped.configuring.scenario import read_scenario
from amped.tables.table_files import KERNELS
from amped.theory.language.quantity import CATEGORIES, NETWORK
from tests.helpers.config import KNOWN, config, sources

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**320), 10**320) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from([*KNOWN, *aliases().names(), KERNELS]) | st.text(max_size=12)
entries = st.fixed_dictionaries(
    {},
    optional={
        "value": json_values | st.sampled_from(["8 GB", "900 GB/s", "5 us", "8 k", "full", 8, 0, -1, [1, 2]]),
        "calculated": st.booleans() | json_values,
        "from_lookup_table": st.booleans() | json_values,
        "lookup_name": st.sampled_from(["tokens", "layers", "sources", "aliases"]) | json_values,
    },
)
lookups = st.fixed_dictionaries(
    {},
    optional={
        "lookup_table_name": st.sampled_from(["accelerator_specifications", "zzz"]) | json_values,
        "lookup_table_row": st.sampled_from(["A100", "Llama 3 8B", "DGX H100", ["A100", "V100"]]) | json_values,
    },
)
sections = st.fixed_dictionaries(
    {},
    optional={
        "parameters": st.dictionaries(names, entries | json_values, max_size=5) | json_values,
        "lookup_config": lookups | json_values,
    },
)
configs = st.dictionaries(
    st.sampled_from([*CATEGORIES, "performance_model", "description"]) | st.text(max_size=8),
    sections | json_values,
    max_size=5,
)


def read_or_told(read):
    """Whether something was read, or every problem told in words; any other exception is a failure."""
    try:
        return read() is not None
    except AmpedError as error:
        return bool(error.problems) and all(problem.what for problem in error.problems)


class TestProperties:
    """Whatever a config holds: sources, or an error of ours."""

    @given(json_values)
    @settings(max_examples=100)
    def test_any_json(self, written):
        whole = written if isinstance(written, dict) else {NETWORK: written}
        assert read_or_told(lambda: read_config(whole, KNOWN))

    @given(configs)
    @settings(max_examples=100, deadline=None)
    def test_anything_that_looks_like_a_config(self, written):
        assert read_or_told(lambda: read_scenario(written))

    @given(names, entries)
    @settings(max_examples=100, deadline=None)
    def test_any_parameter_in_a_sound_config(self, name, entry):
        assert read_or_told(lambda: read_scenario(config(**{name: entry})))

    @given(st.sampled_from([n for n, q in KNOWN.items() if q.category]), json_values)
    @settings(max_examples=100, deadline=None)
    def test_any_value_from_the_caller(self, name, value):
        assert read_or_told(lambda: read_scenario(config(), {name: value}))

    @given(st.integers(1, 10**9), st.sampled_from(["", "k", " k", " K"]))
    def test_a_count_is_read_as_written(self, number, suffix):
        scale = 1000 if suffix.strip() else 1
        assert sources(config(batch_size=f"{number}{suffix}")).given["batch_size"] == number * scale
