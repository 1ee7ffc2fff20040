"""`dataclass` of the standard library, in less time: it shares what the library writes and compiles for each class.

That are six methods, half a millisecond for each class and each time that amped starts. Here they are functions that look up the
names of the fields; all else is the standard library's. A record then takes about a microsecond longer to make. `record` is short for
a dataclass that is frozen and has slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass", "record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import TypeVar, dataclass_transform

    Class = TypeVar("Class")

    @dataclass_transform(frozen_default=True)
    def record(cls: type[Class]) -> type[Class]:
        """What a type checker takes `record` for: a dataclass that is frozen."""
        return cls
else:
    import dataclasses
    from dataclasses import MISSING
    from operator import attrgetter
    from reprlib import recursive_repr

    def dataclass(cls=None, /, *, frozen=False, **how):
        """Makes a class a dataclass; the arguments are those of the standard library's."""

        def made(plain):
            record = dataclasses.dataclass(plain, init=False, eq=False, repr=False, **how)
            fields = dataclasses.fields(record)
            methods = _methods([f.name for f in fields if f.compare], [f.name for f in fields if f.repr])
            methods["__init__"] = _initial(record)
            methods |= _unchanged(record, [f.name for f in fields]) if frozen else {"__hash__": None}
            written = {name for name, value in vars(plain).items() if value is not None}
            for name, method in methods.items():
                if name not in written:
                    setattr(record, name, method)
            return record

        return made if cls is None else made(cls)

    def record(cls):
        """Makes a class a dataclass whose objects do not change and have no further attributes."""
        return dataclass(cls, frozen=True, slots=True)

    def _methods(compared, shown):
        """The methods that compare and hash the fields `compared`, and the one that shows the fields `shown`."""
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
        """The methods that refuse changes of the fields of a class; a subclass may have further attributes."""

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

    def _initial(cls):
        """The `__init__` of a class: it sets each field, and calls `__post_init__` if there is one."""
        fields = dataclasses.fields(cls)
        names = tuple(f.name for f in fields if f.init)
        slots = "__slots__" in vars(cls)
        setters = {f.name: getattr(cls, f.name).__set__ for f in fields} if slots else {}
        number, is_checked, completed = len(names), hasattr(cls, "__post_init__"), _completed(cls, fields, names)
        has_others = len(fields) > number

        def first(self, *values, **named):
            is_whole = len(values) == number and not named and not has_others
            row = zip(names, values, strict=True) if is_whole else completed(values, named).items()
            if slots:
                for name, value in row:
                    setters[name](self, value)
            else:
                self.__dict__.update(row)
            if is_checked:
                self.__post_init__()

        return first

    def _completed(cls, fields, names):
        """A function that gives the values of all fields by name, from values in order, values by name, and defaults."""
        defaults = {f.name: f.default for f in fields if f.default is not MISSING}
        factories = {f.name: f.default_factory for f in fields if f.default_factory is not MISSING}
        number_of_fields, number, initial = len({*names, *defaults, *factories}), len(names), frozenset(names)

        def completed(values, named):
            row = defaults.copy()
            row.update(zip(names, values, strict=False))
            row.update(named)
            if factories:
                row.update((name, make()) for name, make in factories.items() if name not in row)
            is_twice = values and named and not named.keys().isdisjoint(names[: len(values)])
            if is_twice or len(row) != number_of_fields or len(values) > number or not initial.issuperset(named):
                raise TypeError(_wrong(cls, names, values, named, row))
            return row

        return completed

    def _wrong(cls, names, values, named, row):
        """The message of the error for wrong arguments of a record."""
        if unknown := [name for name in named if name not in names]:
            what = f"got an unexpected keyword argument {unknown[0]!r}"
        elif missing := [name for name in names if name not in row]:
            what = f"is missing {', '.join(missing)}"
        else:
            what = f"takes {len(names)} values, and got {len(values)} and {', '.join(named) or 'no names'}"
        return f"{cls.__qualname__}.__init__() {what}"
