"""What the verbs of `amped bench` share: the options that name a device, and the coefficients of its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from amped.cli.bench_fit import coefficients_of

if TYPE_CHECKING:
    from amped.kernels.machine import Machine
    from amped.tables.tables import Tables

DeviceOption = Annotated[str | None, Option("--device", help="cpu or cuda; a GPU where there is one.")]
DtypeOption = Annotated[str | None, Option("--dtype", metavar="FORMAT", help="fp32, bf16 or fp16.")]


def own_coefficients(tables: Tables, machine: Machine) -> dict[str, float]:
    """The coefficients that predict a machine until coefficients are fitted to it."""
    from amped.kernels.rows import base_row

    return coefficients_of(tables, base_row(tables, machine.name, machine.known))
