"""The operators of an optimizer step. Each file says what its optimizer keeps for a parameter.

The page `update` is common to all optimizers. The chapter takes the precisions, and the parameters that one accelerator
updates; these come from the later chapter `stages`, an exception to the order of chapters. It hands on
`optimizer_operators` and `optimizer_states_per_parameter`.
"""

PAGES = ("adam", "sgd", "none", "update")
