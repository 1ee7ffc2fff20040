"""`dataclass` of the standard library, in less time: it compiles what is called often, and shares the rest.

For each class the standard library writes and compiles six methods of its own, half a millisecond each time that amped starts. Here
comparison, hash and text are functions that look up the names of the fields; all else is the standard library's. `record` is short for a
dataclass that is frozen and has slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass", "record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import dataclass as record  # a type checker does not see that it is frozen
else:
    import dataclasses
    from operator import attrgetter
    from reprlib import recursive_repr

    def dataclass(cls=None, /, *, eq=True, order=False, **how):
        """Makes a class a dataclass; the arguments are those of the standard library's."""

        def made(own):
            if order or not eq:
                return dataclasses.dataclass(own, eq=eq, order=order, **how)
            found = dataclasses.dataclass(own, eq=False, repr=False, **how)
            fields = dataclasses.fields(found)
            methods = _methods([f.name for f in fields if f.compare], [f.name for f in fields if f.repr])
            if not how.get("frozen"):
                methods["__hash__"] = None
            written = {name for name, value in vars(own).items() if value is not None}
            for name, method in methods.items():
                if name not in written:
                    setattr(found, name, method)
            return found

        return made if cls is None else made(cls)

    def record(cls):
        """Makes a class a dataclass whose objects do not change and have no further attributes."""
        return dataclass(cls, frozen=True, slots=True)

    def _methods(compared, shown):
        """The methods that compare the fields of some names, hash them, and show those of others."""
        values = attrgetter(*compared) if compared else lambda _: ()

        def equal(self, other):
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        def hashed(self):
            return hash(values(self))

        @recursive_repr("...")
        def told(self):
            return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

        return {"__eq__": equal, "__hash__": hashed, "__repr__": told}
