"""A process in which the tables know a sixth parallelism: python sixth_parallelism.py QUESTIONS prints the answers as JSON.

The sixth is Ulysses inside context parallelism (arXiv 2405.07719): its accelerators exchange tokens for heads. It is one
row of `theory/nouns/parallelisms.py`, and one page of `theory/messages/`.
"""

import json
import sys
from pathlib import Path
from types import ModuleType

TABLE = Path(__file__).resolve().parents[2] / "amped" / "theory" / "nouns" / "parallelisms.py"
# The row stands before that of the experts, so that its messages are counted before theirs.
BEFORE = '    Parallelism(\n        "expert",'
ROW = """    Parallelism(
        "ulysses", "up", place=4, splits="tokens", counted="accelerators that exchange tokens for heads",
        source="arXiv 2405.07719, section 3",
    ),
"""
PAGE = '''
from amped.theory.language.quantity import records
from amped.theory.nouns.records import Collective


@records()
def ulysses_collectives(
    query_bytes, attention_output_bytes, local_key_value_bytes, ulysses_group, attentions_per_layer, communication_rounds
):
    """The all-to-alls before and after attention, in each pass. Source: arXiv 2405.07719, section 3."""
    (group,), calls = ulysses_group, attentions_per_layer * communication_rounds
    sent, output = query_bytes + local_key_value_bytes, attention_output_bytes
    return (
        Collective("heads", "all_to_all", volume=sent, group=group, count=calls),
        Collective("attended_heads", "all_to_all", volume=output, group=group, count=calls),
    )
'''


def module(name: str, text: str) -> None:
    """Makes a module of a text, as if it stood in a file of the package."""
    made = sys.modules[name] = ModuleType(name)
    exec(compile(text, name, "exec"), vars(made))


def main() -> None:
    """Adds the sixth parallelism before anything reads the tables, and asks."""
    text = TABLE.read_text("utf-8")
    assert text.count(BEFORE) == 1
    module("amped.theory.nouns.parallelisms", text.replace(BEFORE, ROW + BEFORE))
    import amped.theory.messages as chapter

    module("amped.theory.messages.ulysses", PAGE)
    chapter.PAGES = (*chapter.PAGES, "ulysses")  # type: ignore[assignment]

    import amped
    from amped.cli.options import SHORT

    estimates = [amped.estimate("minimal", **question) for question in json.loads(sys.argv[1])]
    print(json.dumps({"option": SHORT["up"].help, "estimates": [dict(e.to_dict()) for e in estimates]}))


if __name__ == "__main__":
    main()
