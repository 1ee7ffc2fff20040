"""Two activities of a kernel that run at the same time."""

import numpy as np


def together(one, other):
    """The time of two activities that run at the same time: the longer one, or 19 % more if both take equally long.

        time = ⁴√(one⁴ + other⁴).

    `one` and `other` are the times of the activities if each runs alone.

    Source: Williams et al., CACM 52(4), 2009 (roofline). Differs: the fourth root of the sum of fourth powers replaces
    the maximum, because no overlap is perfect.
    """
    return np.sqrt(np.hypot(one * one, other * other))
