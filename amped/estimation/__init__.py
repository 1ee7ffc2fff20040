"""One estimate: its results, the rules it must keep, where they come from, and how sure they are."""
