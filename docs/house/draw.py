"""Draws the house from the code: `python docs/house/draw.py` writes the pictures that CONTRIBUTING shows.

floors.svg has the rooms on their floors and who imports whom, chapters.svg has what the chapters of the theory take
from one another, and recipes.svg has the places that each recipe of CONTRIBUTING and docs/recipes.md names. All are grey, and plain SVG.
`python docs/house/draw.py --counts` draws nothing, and prints how many things there are (`counts.py`).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from amped.theory.language.catalogue import CHAPTERS, Formula, catalogue  # noqa: E402
from tests.house import test_contributing, test_floors  # noqa: E402

FLOORS: Mapping[str, int] = test_floors.FLOORS
INK, LINE, BAND, ROOM = "#111111", "#555555", "#eeeeee", "#ffffff"
FONT = 'font-family="Helvetica, Arial, sans-serif"'
MARKER = '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
ARROW = f'<defs>{MARKER}<path d="M0,1 L8,4 L0,7 z" fill="{LINE}"/></marker></defs>'
BESIDE = "kernels"  # the room beside the others, whose arrows pass at the right
Pair = tuple[str, str]
# What stands on a floor: a room, or an arrow from one room to another that passes.
Each = tuple[str, ...]


# --- what is drawn with ----------------------------------------------------------------------------------------------


def picture(width: float, height: float, parts: Iterable[str]) -> str:
    """A picture of some parts, on white."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" {FONT}>'
    return "\n".join([head, ARROW, box(0, 0, width, height, ROOM, ROOM), *parts, "</svg>", ""])


def box(x: float, y: float, width: float, height: float, fill: str, edge: str = LINE) -> str:
    """A rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}" stroke="{edge}"/>'


def text(x: float, y: float, words: str, size: float = 13, anchor: str = "start", turned: bool = False) -> str:
    """A line of text, or one that climbs."""
    turn = f' transform="rotate(-50 {x:g} {y:g})"' if turned else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{INK}" text-anchor="{anchor}"{turn}>{words}</text>'


def dot(x: float, y: float, radius: float, hollow: bool = False) -> str:
    """A dot, or a ring."""
    inside = ROOM if hollow else LINE
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{inside}" stroke="{LINE}" stroke-width="2"/>'


def arrow(points: Sequence[tuple[float, float]]) -> str:
    """A line through some points that ends in an arrow."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.3" marker-end="url(#a)"/>'


# --- rooms and floors ------------------------------------------------------------------------------------------------


def imports() -> set[Pair]:
    """Which room imports from which, but for rooms of data."""
    found = set()
    for path in (*test_floors.SOURCES, *test_floors.KERNELS):
        room = "kernels" if path in test_floors.KERNELS else test_floors.room_of(test_floors.module_of(path))
        others = {test_floors.room_of(name) for name in test_floors.imports_of(path) if name.startswith("amped.")}
        found |= {(room, other) for other in others if other != room}
    return {pair for pair in found if not set(pair) & set(test_floors.DATA_ROOMS)}


def below(room: str, pairs: set[Pair]) -> set[str]:
    """All rooms that a room stands on, through others too."""
    own = {other for one, other in pairs if one == room}
    return own.union(*(below(other, pairs) for other in own))


def direct(pairs: set[Pair]) -> list[Pair]:
    """The imports that no way over other rooms stands for."""
    return sorted(
        (one, other)
        for one, other in pairs
        if not any(other in below(between, pairs) for start, between in pairs if start == one and between != other)
    )


def levels(pairs: Sequence[Pair]) -> list[list[Each]]:
    """What stands on each floor from the ground up: rooms, and the places at which arrows pass."""
    stand: list[list[Each]] = [[] for _ in range(max(FLOORS.values()) + 1)]
    for room, floor in FLOORS.items():
        stand[floor].append((room,))
    for one, other in pairs:
        for floor in range(FLOORS[other] + 1, FLOORS[one] if one != BESIDE else 0):
            stand[floor].append((one, other))
    return stand


def across(pairs: Sequence[Pair], width: float) -> dict[tuple[Each, int], float]:
    """Where each stands across its floor: near what it leads to, floor by floor from the ground."""
    found: dict[tuple[Each, int], float] = {}
    for floor, stand in enumerate(levels(pairs)):
        wanted = {each: over(each, floor, pairs, found, width) for each in stand}
        ordered = sorted(stand, key=lambda each: wanted[each])
        sizes = [1.0 if len(each) == 1 else 0.45 for each in ordered]
        step, passed = width / sum(sizes), 0.0
        for each, size in zip(ordered, sizes, strict=True):
            found[each, floor] = (passed + size / 2) * step
            passed += size
    return found


def over(each: Each, floor: int, pairs: Sequence[Pair], found: Mapping[tuple[Each, int], float], width: float) -> float:
    """The middle of what a room or an arrow leads to on the floor below, or of the rooms further down."""
    if each[0] == BESIDE:
        return width
    ways = [each] if len(each) == 2 else [pair for pair in pairs if pair[0] == each[0]]
    ends = [found.get((way, floor - 1), found.get(((way[1],), floor - 1), width / 2)) for way in ways]
    return sum(ends) / len(ends) if ends else width / 2


def floors() -> str:
    """The rooms on their floors, and an arrow for each import that no others stand for."""
    pairs, left, width, high, size = direct(imports()), 70.0, 790.0, 62.0, (136.0, 30.0)
    places, top = across(pairs, width), max(FLOORS.values())

    def at(each: Each, floor: int) -> tuple[float, float]:
        middle = 20 + (top - floor) * high + high / 2
        return (left + places[each, floor], middle) if (each, floor) in places else (left + width + 20, middle + 26)

    note = "An arrow leads to a room that is imported. Imports that follow from other arrows are not drawn."
    parts = [
        text(8, 14, note),
        *(box(0, 20 + n * high, left + width + 40, high, (BAND, ROOM)[n % 2], BAND) for n in range(top + 1)),
    ]
    parts += [text(8, 24 + (top - n) * high + high / 2, f"floor {n}") for n in range(top + 1)]
    for one, other in pairs:
        between = [at((one, other), floor) for floor in range(FLOORS[one] - 1, FLOORS[other], -1)]
        (x, y), (u, v) = at((one,), FLOORS[one]), at((other,), FLOORS[other])
        parts.append(arrow([(x, y + size[1] / 2), *between, (u, v - size[1] / 2)]))
    for room, floor in FLOORS.items():
        x, y = at((room,), floor)
        parts += [box(x - size[0] / 2, y - size[1] / 2, *size, ROOM), text(x, y + 5, label(room), 13.5, "middle")]
    return picture(left + width + 40, 30 + (top + 1) * high, parts)


def label(room: str) -> str:
    """A room as the table of CONTRIBUTING names it."""
    return f"{room}.py" if (ROOT / "amped" / f"{room}.py").is_file() else room


# --- chapters --------------------------------------------------------------------------------------------------------


def chapter_of(formula: Formula) -> str:
    """The chapter of a formula."""
    return formula.page.split("/", maxsplit=1)[0]


def handed_on() -> Counter[tuple[str, str, str]]:
    """How many formulas of a chapter take a name of another: chapter that has it, chapter that takes it, name."""
    known, found = catalogue(), Counter[tuple[str, str, str]]()
    for formula in (formula for quantity in known.values() for formula in quantity.formulas):
        for name in {argument.partition("__")[0] for argument in formula.arguments}:
            home = chapter_of(next((f for f in known[name].formulas if not f.variant), known[name].formulas[0]))
            if home != chapter_of(formula):
                found[home, chapter_of(formula), name] += 1
    return found


def chapters() -> str:
    """Each chapter on the diagonal; a dot in its row says from which chapter above it takes values."""
    taken, left, wide, high, top = handed_on(), 16.0, 66.0, 34.0, 34.0
    names: dict[Pair, set[str]] = {}
    for home, user, name in taken:
        names.setdefault((home, user), set()).add(name)
    side, column = left + len(CHAPTERS) * wide + 24, {chapter: n for n, chapter in enumerate(CHAPTERS)}
    parts = [text(8, 20, HOW), text(side, 20, "it hands on, most of all")]
    for n, chapter in enumerate(CHAPTERS):
        y = top + n * high
        parts += [box(0, y, side + 470, high, (BAND, ROOM)[n % 2], BAND)]
        for (home, user), found in sorted(names.items()):
            at = left + (column[home] + 0.5) * wide
            parts += [dot(at, y + high / 2, radius(len(found)), column[home] > n)] * (user == chapter)
        parts += [box(left + n * wide - 8, y + 4, wide + 16, high - 8, ROOM)]
        parts += [text(left + (n + 0.5) * wide, y + 22, chapter, 13, "middle")]
        parts += [text(side, y + 22, ", ".join(most_taken(chapter, taken)) or "results", 12)]
    foot = top + len(CHAPTERS) * high + 22
    for n, (words, size, hollow) in enumerate(LEGEND):
        parts += [dot(20 + n * 190, foot, size, hollow), text(34 + n * 190, foot + 5, words, 12)]
    return picture(side + 470, foot + 18, parts)


def radius(names: int) -> float:
    """The size of a dot for so many names."""
    return 3.0 if names < 5 else 6.0 if names < 20 else 9.0


HOW = "A dot: the chapter of the row takes values of the chapter of the column."
LEGEND = (
    ("1 to 4 names", 3.0, False),
    ("5 to 19 names", 6.0, False),
    ("20 names or more", 9.0, False),
    ("of a later chapter: an exception", 3.0, True),
)


def most_taken(chapter: str, taken: Counter[tuple[str, str, str]], few: int = 2) -> list[str]:
    """The names of a chapter that most formulas of other chapters take."""
    counts = Counter[str]()
    for (home, _, name), count in taken.items():
        counts[name] += count if home == chapter else 0
    return [name for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if count][:few]


# --- recipes ---------------------------------------------------------------------------------------------------------


def recipes_of(recipes: str) -> Iterator[tuple[str, set[str]]]:
    """Each recipe of some pages with the places that it names."""
    for title, body in re.findall(r"^\*\*(.+?)\*\*(.*?)(?=^\*\*|\Z)", recipes, re.M | re.S):
        words = set(test_contributing.quoted(body)) - {"__init__.py"}  # of any folder
        paths = [word for word in words if test_contributing.is_path(word)]
        yield title, {place for path in paths for place in place_of(path)}


def place_of(path: str) -> Iterator[str]:
    """The chapter, the room or the folder in which a path of CONTRIBUTING lies."""
    start = next(start for start in test_contributing.STARTS if (start / path).exists())
    parts = (start / path).relative_to(ROOT).parts
    if parts[:2] == ("amped", "theory"):
        inner = Path(parts[2]).stem if len(parts) > 2 else "theory"
        yield inner if inner in CHAPTERS else "theory"
    else:
        yield Path(parts[1] if parts[0] == "amped" and len(parts) > 1 else parts[0]).stem


def recipes() -> str:
    """A row for each recipe, and a dot for each place that it names."""
    rows = list(recipes_of(test_contributing.RECIPES))
    named = set().union(*(places for _, places in rows))
    order = [*CHAPTERS, "theory", *sorted((r for r in FLOORS if r != "theory"), key=lambda r: FLOORS[r])]
    columns = [place for place in order if place in named] + sorted(named - set(order))
    left, top, wide, high = 380.0, 104.0, 34.0, 26.0
    parts = [text(left + (n + 0.6) * wide, top - 8, place, 13, turned=True) for n, place in enumerate(columns)]
    for n, (title, places) in enumerate(rows):
        y = top + n * high
        parts += [box(0, y, left + len(columns) * wide + 60, high, (BAND, ROOM)[n % 2], BAND), text(8, y + 18, title)]
        parts += [dot(left + (columns.index(place) + 0.5) * wide, y + high / 2, 6) for place in sorted(places)]
    return picture(left + len(columns) * wide + 60, top + len(rows) * high + 8, parts)


PICTURES = {"floors.svg": floors, "chapters.svg": chapters, "recipes.svg": recipes}

if __name__ == "__main__":
    if sys.argv[1:] == ["--counts"]:
        import counts

        print(counts.printed())
        sys.exit()
    for name, drawn in PICTURES.items():
        (HERE / name).write_text(drawn(), "utf-8")
