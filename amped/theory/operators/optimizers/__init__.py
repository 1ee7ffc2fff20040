"""The operators of an optimizer step. A file says what its optimizer keeps for a parameter; `update` is common to all.

Takes the precisions and the parameters that one accelerator updates (of the chapter `stages`, an exception to the
order); hands on `optimizer_operators` and `optimizer_states_per_parameter`.
"""

PAGES = ("adam", "sgd", "none", "update")
