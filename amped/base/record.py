"""`dataclass` of the standard library, in less time: it compiles what is called often, when it is called first, and shares the rest.

For each class the standard library writes and compiles six methods of its own, half a millisecond each time that amped starts. Here
`__init__` is written and compiled when the first record of a class is made, and a run makes records of few classes. Comparison,
hash, text and the refusal of changes are functions that look up the names of the fields; all else is the standard library's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter
    from reprlib import recursive_repr

    def dataclass(cls=None, /, *, eq=True, order=False, frozen=False, **how):
        """Makes a class a dataclass; the arguments are those of the standard library's."""

        def made(own):
            if order or not eq:
                return dataclasses.dataclass(own, eq=eq, order=order, frozen=frozen, **how)
            found = dataclasses.dataclass(own, init=False, eq=False, repr=False, **how)
            fields = dataclasses.fields(found)
            methods = _methods([f.name for f in fields if f.compare], [f.name for f in fields if f.repr])
            methods["__init__"] = _made_at_first(found, frozen)
            methods |= _unchanged(found, [f.name for f in fields]) if frozen else {"__hash__": None}
            written = {name for name, value in vars(own).items() if value is not None}
            for name, method in methods.items():
                if name not in written:
                    setattr(found, name, method)
            return found

        return made if cls is None else made(cls)

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

    def _unchanged(cls, names):
        """The methods that refuse changes of the fields of a class; a class on top of it may have attributes of its own."""

        def refused(self, name, value):
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def kept(self, name):
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        return {"__setattr__": refused, "__delattr__": kept, **(_pickled(names) if "__slots__" in vars(cls) else {})}

    def _pickled(names):
        """The methods by which frozen records with slots are copied and sent to other processes."""

        def state(self):
            return [getattr(self, name) for name in names]

        def restored(self, values):
            for name, value in zip(names, values, strict=True):
                object.__setattr__(self, name, value)

        return {"__getstate__": state, "__setstate__": restored}

    def _made_at_first(cls, frozen):
        """An `__init__` that is compiled, and takes its own place, when it is called first."""

        def first(self, *values, **named):
            cls.__init__ = _compiled(cls, frozen)
            cls.__init__(self, *values, **named)

        return first

    def _compiled(cls, frozen):
        """The `__init__` of a class: it sets each field, in their order, and calls `__post_init__` if there is one."""
        known, taken, lines = {"_set": object.__setattr__, "_open": dataclasses.MISSING}, [], []
        for f in dataclasses.fields(cls):
            known |= {f"_default_{f.name}": f.default, f"_new_{f.name}": f.default_factory}
            is_open = f.default_factory is not dataclasses.MISSING
            has_default = f.default is not dataclasses.MISSING
            taken += [f.name + ("=_open" if is_open else f"=_default_{f.name}" if has_default else "")] * f.init
            value = f.name if f.init else f"_default_{f.name}"
            if is_open:
                value = f"_new_{f.name}() if {f.name} is _open else {f.name}" if f.init else f"_new_{f.name}()"
            if f.init or is_open or has_default:
                lines.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
        lines += ["self.__post_init__()"] * hasattr(cls, "__post_init__")
        exec(f"def __init__({', '.join(['self', *taken])}):\n " + "\n ".join(lines or ["pass"]), known)
        made = known["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made
