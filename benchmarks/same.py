"""Whether the working tree answers as a commit does: python benchmarks/same.py COMMIT. See README.md beside this file.

Both trees are asked the same questions, each by a process of its own, and every value of every answer is compared. Names that
were changed since are in `former_names.json` beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import same_questions
from same_compare import (
    FIT_TOLERANCE,
    Absent,
    Difference,
    Names,
    differences,
    failure,
    former_names,
    losses,
    of_today,
)

ROOT = Path(__file__).resolve().parent.parent
PROBE = Path(__file__).with_name("same_probe.py")
OLD, NEW = "older", "newer"


class UsageError(Exception):
    """What is asked for cannot be done; told in a sentence."""


def git(*arguments: str) -> str:
    """What git prints; empty where it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def laid_out(commit: str, folder: Path) -> Path:
    """The tree of a commit, in a folder."""
    known = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if not known:
        raise UsageError(f"there is no commit '{commit}' in {ROOT}")
    archive, tree = folder / "tree.tar", folder / "tree"
    subprocess.run(["git", "-C", str(ROOT), "archive", "--output", str(archive), known], check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(tree, filter="data")
    archive.unlink()
    return tree


def probe(tree: Path, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A process that answers in one tree. Its folder is empty, so that no tables of the user are layered over the tree's."""
    folder.mkdir(exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROBE), str(tree), *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)


def finished(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Waits for all processes; none is left behind."""
    try:
        for name, process in processes.items():
            if process.wait():
                raise UsageError(f"the {name} tree could not be asked: its process ended with {process.returncode}")
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def the_file(tree: Path, pattern: str) -> str:
    """The one file of a tree that a question needs."""
    found = sorted(tree.glob(pattern))
    if not found:
        raise UsageError(f"the commit has no {pattern}")
    return str(found[0])


def asked_of(tree: Path, folder: Path, sections: Sequence[str]) -> dict[str, Any]:
    """The questions of the sections, all taken from the older tree."""
    asked: dict[str, Any] = {}
    if "shapes" in sections:
        the_file(tree, "tests/**/*laws.py")
        finished({OLD: probe(tree, folder / "old", "--shapes", str(folder / "shapes.json"))})
        asked["shapes"] = json.loads((folder / "shapes.json").read_text("utf-8"))
    if "configs" in sections:
        asked["configs"] = same_questions.configs(tree)
    if "rows" in sections:
        asked["rows"] = the_file(tree, "lookup_tables/published_measurements.csv")
    if "mappings" in sections:
        asked["mappings"] = same_questions.mappings()
    if "explorations" in sections:
        asked["explorations"] = same_questions.EXPLORATIONS
    if "offered" in sections:
        asked["offered"] = True
    if "fits" in sections:
        table = the_file(tree, "lookup_tables/published_measurements.csv")
        asked["fits"] = [table, the_file(tree, "kernels/results/*.json")]
    return asked


def answers(tree: Path, folder: Path, asked: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers of both trees, which are asked at once, each by its own names."""
    by_tree = {OLD: asked, NEW: of_today(asked, former_names()["names"])}
    places, processes = {OLD: tree, NEW: ROOT}, {}
    files = {name: folder / f"{name}.json" for name in places}
    for name, questions in by_tree.items():
        written = folder / f"questions-{name}.json"
        written.write_text(json.dumps(questions), "utf-8")
        processes[name] = probe(places[name], folder / name, str(written), str(files[name]))
    finished(processes)
    # Questions may name files of the older tree, so its path may stand in the answers of both.
    one, other = (json.loads(files[name].read_text("utf-8").replace(str(tree), "TREE")) for name in (OLD, NEW))
    return one, other


def section_differences(
    section: str, old: Mapping[str, Any], new: Mapping[str, Any], names: Names, tolerance: float
) -> Iterator[tuple[str, Difference]]:
    """Everything that differs in a section, with its question."""
    allowed = max(tolerance, FIT_TOLERANCE) if section == "fits" else tolerance
    for label, answer in old.items():
        if failure(answer) and (section != "mappings" or failure(answer).startswith("crash")):
            yield label, Difference(("not answered, even by the older tree",), failure(answer), failure(new[label]))
        if section == "offered":
            yield from (("what is offered", each) for each in losses(answer, new[label], names))
        else:
            yield from ((label, each) for each in differences(answer, new[label], names, allowed))


def lines(section: str, found: Sequence[tuple[str, Difference]], most: int) -> Iterator[str]:
    """A section of the report: a line for each name, with the first question it differs in."""
    by_name: dict[str, list[tuple[str, Difference]]] = {}
    for label, each in found:
        by_name.setdefault(each.name, []).append((label, each))
    yield f"{section}: {len(by_name)} names differ, in {len({label for label, _ in found})} questions"
    for where in list(by_name.values())[:most]:
        others = len({label for label, _ in where}) - 1
        beside = f" and {others} more" if others else ""
        yield f"  {where[0][1].path}: {where[0][1]}, in '{where[0][0]}'{beside}"
    if len(by_name) > most:
        yield f"  … and {len(by_name) - most} more"


def counted(asked: Mapping[str, Any], old: Mapping[str, Any]) -> str:
    """What was asked, in numbers."""
    told = []
    for section in asked:
        number = len(old[section])
        if section == "configs":
            number //= 2  # each by its content and by its name
        elif section == "rows":
            number = same_questions.number_of_rows(Path(asked["rows"]))
        elif section == "offered":
            told.append(_offered(old[section]["all"]))
            continue
        valid = sum("quantities" in answer for answer in old[section].values())
        told.append(f"{number} {section}" + (f" ({valid} valid)" if section == "mappings" else ""))
    return ", ".join(told)


def _offered(all_of_it: Mapping[str, Any]) -> str:
    verbs = all_of_it.get("verbs", {})
    options = sum(map(len, verbs.values()))
    return f"{len(verbs)} verbs with {options} options, {len(all_of_it.get('names', {}))} names offered"


def compared(arguments: argparse.Namespace, folder: Path) -> bool:
    """Asks both trees and prints what differs; whether nothing does."""
    names = Names({former: name for kind in former_names().values() for former, name in kind.items()})
    tree = laid_out(arguments.commit, folder)
    asked = asked_of(tree, folder, arguments.only)
    old, new = answers(tree, folder, asked)
    same, gained = True, set()
    for section in asked:
        told = list(section_differences(section, old[section], new[section], names, arguments.tolerance))
        gained |= {each.name for _, each in told if isinstance(each.old, Absent)}
        found = [(label, each) for label, each in told if not isinstance(each.old, Absent)]
        if found:
            same = False
            print("\n".join(lines(section, found, arguments.lines)))
    print(
        f"{'same' if same else 'differs'}: {counted(asked, old)}; {len(names.met)} names mapped, {len(gained)} are new"
    )
    for name in sorted(gained) if arguments.names else ():
        print(f"  new: {name}")
    for former, name in sorted(names.met.items()) if arguments.names else ():
        print(f"  {former} → {name}")
    return same


def sections_of(text: str) -> list[str]:
    """The sections named, in their order."""
    named = [word.strip() for word in text.split(",")]
    for word in named:
        if word not in same_questions.SECTIONS:
            raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(same_questions.SECTIONS)}")
    return [section for section in same_questions.SECTIONS if section in named]


def share(text: str) -> float:
    """A tolerance."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError("a tolerance is a share, from 0 to below 1")
    return value


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", metavar="COMMIT", help="the tree to compare the working tree with")
    parser.add_argument(
        "--tolerance", type=share, default=0.0, metavar="R", help="relative; 0, the default, is bit for bit"
    )
    parser.add_argument("--only", type=sections_of, metavar="LIST", help=f"of {','.join(same_questions.SECTIONS)}")
    parser.add_argument("--fits", action="store_true", help=f"fits too: their errors within {FIT_TOLERANCE:.0%}%")
    parser.add_argument("--names", action="store_true", help="print the names that were mapped, and those that are new")
    parser.add_argument("--lines", type=int, default=20, metavar="N", help="of a section; 20 by default")
    arguments = parser.parse_args()
    arguments.only = arguments.only or [section for section in same_questions.SECTIONS if section != "fits"]
    if arguments.fits and "fits" not in arguments.only:
        arguments.only.append("fits")
    return arguments


def stop(*_: object) -> NoReturn:
    """Ends as Ctrl-C does, so that nothing is left behind."""
    raise KeyboardInterrupt


def main() -> int:
    """0 where all is the same, 1 where something differs, 2 where the question is wrong."""
    arguments = read_arguments()
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, stop)
    try:
        with tempfile.TemporaryDirectory(prefix="amped-same-") as folder:
            return 0 if compared(arguments, Path(folder)) else 1
    except UsageError as error:
        print(f"same.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("same.py: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
