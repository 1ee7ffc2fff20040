"""The tools of `amped mcp`: what agents ask, and how it is answered without harm.

`tools` has a function for each tool, with plain data in and out. `worker` runs them in a process of its own that reads no file of the
user. `server` is the door by the Model Context Protocol; it alone needs the library `mcp`.
"""
