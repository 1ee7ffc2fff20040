"""Conditions under which formulas apply, where several pages name the same.

A page uses one in its mark: `@quantity("byte", **OFFLOADED)`.
"""

# What may lie on the host: a formula about that applies where one of these is given.
OFFLOADS = ("optimizer_offload", "activation_offload", "weight_offload")
OFFLOADED = {"when_any_given": OFFLOADS}
# A layout lists the layers of every pipeline stage.
LISTED = {"when_given": ("pipeline_layout",)}
GPIPE = {"choice": "pipeline_schedule", "value": "gpipe"}
ZERO_BUBBLE_H1 = {"choice": "pipeline_schedule", "value": "zero_bubble_h1"}
ZERO_BUBBLE_V = {"choice": "pipeline_schedule", "value": "zero_bubble_v"}
