"""The layout of a pipeline, found before anything is planned: which stage has how many layers of which kind.

`laying_out` gives the layout that is asked for, or the best of many. They begin at `balance`, the layout whose longest
stage is as short as possible, and at `starts`, the layouts in which chunks one after another have equally many layers.
Users write layouts as text, which `configuring/layout_text.py` reads. The word layout alone means a pipeline's; that of a
tensor in memory is a tensor layout.
"""
