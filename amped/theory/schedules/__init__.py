"""The pipeline: the stage that paces it, and how long the others let it wait, a file for each schedule."""

PAGES = ("bottleneck", "bubble", "gpipe", "one_f_one_b", "interleaved", "zero_bubble_h1", "zero_bubble_v")
