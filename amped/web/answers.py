"""The answers that the page draws, as plain data: the same estimate, search and comparison that the command line shows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from amped.base.errors import AmpedError
from amped.configuring.config_writing import as_json
from amped.drafting.improvements import improvements
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.remedies import smallest_change
from amped.exploration.answer import Exploration, explored, settings
from amped.exploration.request import Options
from amped.exploration.results import Row
from amped.interop.exporting import TARGETS, target
from amped.report import human, screen, why
from amped.report.page import answer, memory, ranked, step
from amped.report.page.again import whole_config
from amped.report.page.beside import beside
from amped.report.page.content import Section, table
from amped.report.page.numbers import HEADLINE, numbers
from amped.report.page.topics import asked_of, headings, topics
from amped.report.page.writing import as_html
from amped.tables.table_files import MODELS, SOFTWARE, SYSTEMS, LookupTables
from amped.tables.tables import Tables, user_tables
from amped.theory.language.quantity import MAPPING, NETWORK, SYSTEM
from amped.web import controls, state
from amped.web.drawn import section_as_json
from amped.web.state import State, asking, changed, words

# The estimates that are kept, for the pinned one and for the timeline that is asked for after the numbers.
KEPT = 64
# What a page shows of a search, and the most spans of a timeline that follows a slider.
BEST, SPANS = 5, 1000
SPACE = "default"
# What the list of rows says beside a name.
TOLD = {
    MODELS: {"parameters_published": " parameters", "layers": " layers"},
    SYSTEMS: {"accelerator": "", "number_of_accelerators_per_node": " in a server"},
    SOFTWARE: {},
}
# While a slider moves nothing is searched, not even the change with which it would fit.
NOT_YET = ""
Json = dict[str, Any]


class Desk:
    """Answers the questions of a page; keeps the estimates of its latest states.

    Each public method but `estimation` answers one question of the page: JSON in, JSON out.
    """

    def __init__(self, lookup_tables: LookupTables = None, first: State | None = None) -> None:
        self.lookup_tables, self.first = lookup_tables, dict(first or state.first())
        self._kept = lru_cache(maxsize=KEPT)(self._estimation)

    def estimation(self, said: State) -> Estimation:
        """The estimate of a state, equal to that of `amped estimate` with the same options."""
        return self._kept(tuple(said.items()))

    def _estimation(self, said: tuple[tuple[str, str], ...]) -> Estimation:
        return estimated(asking(dict(said), self.lookup_tables).completed())

    # --- what there is to choose from -----------------------------------------------------------------------------

    def choices(self, _: Json) -> Json:
        """The rows of each table with a description, the controls, the formats to export, and the first state."""
        rows = {name: self._rows(table_name) for name, table_name in zip(controls.ROWS, TOLD, strict=True)}
        formats = {name: form.title for name, form in TARGETS.items()}
        return {"rows": rows, "controls": controls.described(), "formats": formats, "first": self.first,
                "mapping": controls.SEARCHED_ANEW}  # fmt: skip

    def _rows(self, table_name: str) -> list[tuple[str, str]]:
        """The names of the rows of a table, each with its description."""
        tables = user_tables(self.lookup_tables)
        return [(name, _row_in_words(table_name, name, tables)) for name in tables.names(table_name)]

    # --- what follows a slider ------------------------------------------------------------------------------------

    def estimate(self, question: Json) -> Json:
        """Every number, the parts of a step and the memory by stage; if a state is pinned, the differences from its estimate."""
        said, of_user = state.state_of(question.get("state")), state.own_of(question)
        e = self.estimation(said) if question.get("held") else self._around(said, of_user)
        what, how = answer.heading(e)
        sections = [answer.answer(e, NOT_YET), step.parts(e), memory.memory(e, NOT_YET), answer.all_numbers(e)]
        held = {**of_user, **controls.held(e)}
        return {
            "what": what, "how": how, "sections": [section_as_json(part) for part in sections], **self._beside(question, e),
            "state": held, "chosen": [name for name in held if name not in of_user], "shown": controls.shown(e), "places": controls.places(e), "fits": bool(e["fits_in_memory"]),
            "command": words("estimate", held), "replicas": human.digits(e["data_parallel_degree"]), "rows": _rows_of(e), "available": human.value(e["available_memory_bytes"], "byte"),
        }  # fmt: skip

    def _around(self, said: State, of_user: State) -> Estimation:
        """The estimate of a state (`said`) or, if it cannot run or does not fit, of the user's part of it (`of_user`) alone.

        For the user's part alone, the mapping is chosen anew.

        Raises:
            AmpedError: if the user's part cannot run.
        """
        try:
            e = self.estimation(said)
        except AmpedError:
            if of_user == said:
                raise
            return self.estimation(of_user)
        if of_user == said or e["fits_in_memory"]:
            return e
        anew = self.estimation(of_user)
        return anew if anew["fits_in_memory"] else e

    def _beside(self, question: Json, e: Estimation) -> Json:
        """The section that compares an estimate with that of the pinned state, and its headline numbers; empty if none is pinned."""
        if not question.get("pinned"):
            return {}
        try:
            pinned = self.estimation(state.state_of(question["pinned"]))
        except AmpedError as error:
            return {"beside": section_as_json(Section("beside", "Beside what you pinned", [("", str(error))]))}
        both = beside([pinned, e])
        lines = [("", f"A is what you pinned, and B is what you see now. {_change_in_words(pinned, e)}")]
        shown = section_as_json(
            Section(both.id, "Beside what you pinned", lines, pictures=both.pictures, tables=both.tables)
        )
        return {"beside": shown, "reference": {name: n.told for name, n in numbers(pinned).items() if name in HEADLINE}}

    def after(self, question: Json) -> Json:
        """The sections that take too long while a slider moves: the timeline and, once it rests, the change that makes a step fit."""
        e = self.estimation(state.state_of(question.get("state")))
        sections = [step.timeline(e, SPANS)]
        if question.get("settled"):
            change = None if e["fits_in_memory"] else smallest_change(e)
            sections += [
                answer.answer(e, change, other_runs=True),
                *([] if change is None else [memory.memory(e, change)]),
            ]
        return {"sections": [section_as_json(part) for part in sections]}

    # --- what a button asks ---------------------------------------------------------------------------------------

    def why(self, question: Json) -> Json:
        """The bottleneck of a step and the single changes that make it faster, each with the state of the page after the change."""
        said = state.state_of(question.get("state"))
        e = self.estimation(said)
        changes = improvements(e.scenario, e)
        section = step.waterfall_of(e)
        lines = [*section.lines]
        if not changes:
            lines.append(("", why.NONE))
        rows = [(f"{change.name} = {controls.written(change.value)}", change.step_time, change.gain, change.bytes, why.remark(e, change)) for change in changes]  # fmt: skip
        columns = ("change", "step_time|time of a step|s", "gain|less|share", "bytes|memory|byte", "remark| ")
        tables = [table("Single changes that make a step faster", columns, rows)] if rows else []
        states = [changed(said, (), {change.name: controls.written(change.value)}) for change in changes]
        answered = Section(
            "why", f"Why so slow: {screen.what_is_trained(e)}", lines, pictures=section.pictures, tables=tables
        )
        return {"sections": [section_as_json(answered)], "states": states}

    def best(self, question: Json) -> Json:
        """The best mappings that `amped explore` finds, each with the state of the page that shows it."""
        said = changed(state.state_of(question.get("state")), controls.SEARCHED_ANEW, {})
        scenario, sweeps = asking(said, self.lookup_tables).searched({})
        ranking = explored(scenario, Options(BEST, SPACE), sweeps)
        states = [changed(said, (), _of_row(ranking, row, said)) for row in ranking.best]
        what = screen.what_is_trained(self.estimation(states[0] if states else said))
        command = words("explore", said, "--top", str(BEST))
        lines = [("", _search_in_words(ranking)), ("", f"The same on the command line: {command}")]
        return {"sections": [section_as_json(Section("best", f"The best mappings: {what}", lines, tables=[ranked.best(ranking)]))],
                "states": states, "feasible": ranking.feasible}  # fmt: skip

    # --- what leaves the page -------------------------------------------------------------------------------------

    def export(self, question: Json) -> Json:
        """The text and the file name of a state, exported as a config or as the launch line of a framework."""
        form = str(question.get("form"))
        e = self.estimation(state.state_of(question.get("state")))
        if form == "config":
            return {"text": as_json(whole_config(e)), "file": "amped-config.json"}
        chosen = target(form)
        return {"text": chosen.write(e), "file": f"amped-{form.replace('@', '-')}{chosen.suffix}"}

    def report(self, question: Json) -> Json:
        """The text and the file name of the page that `amped report` writes for a state."""
        said = state.state_of(question.get("state"))
        questions = [asked_of(asking(said, self.lookup_tables))]
        return {
            "text": as_html(headings(questions), topics(questions), words("report", said)),
            "file": "amped-report.html",
        }

    def network(self, question: Json) -> Json:
        """The name of the network in a dropped config.json, and a sentence on the keys that are used or cannot be expressed."""
        imported = state.network(str(question.get("text", "")))
        sentences = [
            f"{len(imported.report.used)} keys used",
            *(f"amped cannot express {line}" for line in imported.report.unsupported),
        ]
        return {"name": imported.name, "told": "; ".join(sentences)}


def _change_in_words(one: Estimation, other: Estimation) -> str:
    """A sentence on how much more or less time, money and memory `other` takes than `one`."""
    verbs = {
        "step_time": "a step takes", "cost": "training costs", "memory_per_accelerator_bytes": "an accelerator holds",
    }  # fmt: skip
    names = [name for name in verbs if not any(e.plan.lacking.get(name) for e in (one, other))]
    return f"In B {', '.join(f'{verbs[name]} {_more(other[name] / one[name] - 1)}' for name in names)}."


def _more(change: float) -> str:
    """A relative change in words: "as much", or a percentage "more" or "less"."""
    share = human.percent(abs(change))
    return "as much" if share == human.percent(0.0) else f"{share} {'more' if change > 0 else 'less'}"


def _rows_of(e: Estimation) -> dict[str, str]:
    """The names of the model, the system and the software of an estimate."""
    rows = map(e.scenario.sources.rows.get, (NETWORK, SYSTEM, MAPPING))
    return {name: row.name if row else "" for name, row in zip(controls.ROWS, rows, strict=True)}


def _row_in_words(table_name: str, name: str, tables: Tables) -> str:
    """The description of a row in the list of a table; empty for a row that cannot be read."""
    try:
        columns = tables.row(table_name, name).columns
    except AmpedError:
        return ""
    return ", ".join(f"{columns[column]}{noun}" for column, noun in TOLD[table_name].items() if columns.get(column))


def _of_row(ranking: Exploration, row: Row, said: State) -> dict[str, str]:
    """The mapping of a row of an exploration, by the names and in the form of `--set`.

    The data-parallel degree and the batch size are left out, as amped derives or chooses them; so are names in `said`.
    """
    mapping = settings(ranking.search, row) if ranking.search else {}
    left_out = ("data_parallel_degree", "batch_size", *said)
    return {name: controls.written(value) for name, value in mapping.items() if name not in left_out}


def _search_in_words(ranking: Exploration) -> str:
    """A sentence on how many mappings were tried, how many fit, and how long the best takes; advice if none fits."""
    if ranking.feasible:
        first = human.duration(ranking.best[0]["step_time"])
        return f"{ranked.tried(ranking)} The best takes {first} a step; it is on the sliders now."
    return f"{ranked.tried(ranking)} Else take more accelerators, fewer bits or shorter sequences."
