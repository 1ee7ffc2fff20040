"""The command line: a file for each verb reads options, calls a room below and shows the answer. No physics."""

import gc

# The objects after which Python looks for garbage: a tenth of the time of a short command goes into looking before, also while the
# command's modules are imported. At its end, there is nothing to look for.
gc.set_threshold(1_000_000)
