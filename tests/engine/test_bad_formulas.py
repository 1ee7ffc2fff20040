"""Bad formulas of the user: a cycle, a failure, a file that is none are told by name."""

import pytest

from amped.base.errors import EvaluationError, FileError, ResolveError, WiringError
from amped.library import estimate
from amped.theory.language.quantity import NETWORK
from tests.helpers.cli import config_file
from tests.helpers.config import config


class TestFormulasOfTheUser:
    """A cycle, a formula that fails, text where a formula belongs: told by name."""

    @staticmethod
    def module(folder, *functions, name="own"):
        path = folder / f"{name}.py"
        path.write_text("from amped.quantity import parameter, quantity\n\n\n" + "\n\n\n".join(functions) + "\n")
        return path

    @staticmethod
    def formula(name, argument, result):
        return f'@quantity("count")\ndef {name}({argument}):\n    """One. Source: definition."""\n    {result}'

    def test_a_cycle_is_told_as_a_circle(self, tmp_path):
        path = self.module(
            tmp_path,
            self.formula("layers", "dimensionality", "return dimensionality"),
            self.formula("dimensionality", "layers", "return layers"),
        )
        written = config()
        written[NETWORK] = {"parameters": {"batch_size": {"value": 256}}}
        with pytest.raises(ResolveError) as caught:
            estimate(written, formulas=path)
        assert "these need each other: layers ← dimensionality ← layers" in str(caught.value)
        assert "give the value of one of them" in str(caught.value)

    @pytest.mark.parametrize(
        ("result", "words"),
        [
            ("return 1 / 0", "ZeroDivisionError"),
            ("raise KeyError('x')", "KeyError"),
            ("return undefined_name", "NameError"),
            ("return 'text'", "minibatch_size"),
            ("return [1, 2]", "minibatch_size"),
            ("return None", "minibatch_size"),
            ("return batch_size * float('nan')", "minibatch_size"),
            ("return batch_size / 0", "minibatch_size"),
        ],
    )
    def test_a_formula_that_fails_or_gives_no_number_is_named(self, tmp_path, result, words):
        path = self.module(tmp_path, self.formula("minibatch_size", "batch_size", result))
        with pytest.raises(EvaluationError, match="'minibatch_size'") as caught:
            estimate("minimal", formulas=path)
        assert words in str(caught.value)

    def test_a_formula_of_an_input_that_is_not_there(self, tmp_path):
        path = self.module(tmp_path, self.formula("minibatch_size", "batch_sze", "return batch_sze"))
        with pytest.raises(WiringError, match="'minibatch_size' needs 'batch_sze', which nothing gives") as caught:
            estimate("minimal", formulas=path)
        assert "did you mean 'batch_size'" in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("x = 1 / 0", "does not run: ZeroDivisionError"),
            ("def f(:", "does not run: SyntaxError"),
            ("import nowhere_at_all", "does not run: ModuleNotFoundError"),
            ("raise SystemExit(5)", "does not run: SystemExit"),
        ],
    )
    def test_a_file_that_does_not_run(self, tmp_path, text, words):
        path = self.module(tmp_path, text)
        with pytest.raises(FileError, match=words):
            estimate("minimal", formulas=path)

    @pytest.mark.parametrize("name", ["nowhere.py", ""])
    def test_a_file_that_is_not_there(self, tmp_path, name):
        with pytest.raises(FileError, match="no such file of formulas"):
            estimate("minimal", formulas=tmp_path / name)

    def test_a_file_that_is_no_python(self, tmp_path):
        path = config_file(tmp_path, "{}")
        with pytest.raises(FileError, match="is not a Python file"):
            estimate("minimal", formulas=path)
