"""`amped explain`: how amped gets a value."""

from __future__ import annotations

from dataclasses import asdict

from amped.cli import options


@options.with_chosen_scenario
def explain(asked: options.Scenario, name: str, depth: int = 3, inside: bool = False, as_json: bool = False) -> None:
    """Show how amped gets a value: its formula and source, and what it is computed from.

    NAME may be a word: MFU, step, memory, bubble. A word that may mean several quantities lists them.

    Example: amped explain MFU --model "Llama 3 70B" --system "DGX H100" --gpus 64

    Options:
        name NAME: Of `amped list parameters`, or a word.
        --depth 0..100: Levels of the tree to show.
        --inside: Show names inside chapters too.
        as_json --json: Print the whole tree as JSON.
    """
    from amped.estimation.explanation import explained

    tree = explained(asked, name, inside)
    options.tell_name(name, tree.name)
    options.tell_notices(asked.sources.preliminary)
    if as_json:
        options.show_json(asdict(tree))
        return
    from amped.report.tree import explanation_tree

    options.show(explanation_tree(tree, depth))
