"""A dictionary that knows what it holds, refuses duplicates, and names what it knows."""

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Registry(Generic[K, V]):
    """Maps a key to the one thing that handles it: `MEANING["add"] -> function`."""

    def __init__(self, what: str, rooms: tuple[str, ...] = ()) -> None:
        """`rooms`: folders whose files add to it, imported when it is asked for what it lacks."""
        self.what = what
        self._items: dict[K, V] = {}
        self._rooms = rooms

    def _load(self) -> None:
        """Import the rooms. What they ask meanwhile is answered with what is there."""
        while self._rooms:
            room, self._rooms = self._rooms[0], self._rooms[1:]
            load_room(room)

    def add(self, key: K, value: V) -> V:
        """Let `value` be what handles `key`; a second answer for one key is a `ValueError`."""
        if key in self._items:
            raise ValueError(f"{self.what}: {key!r} is already given by {self._items[key]!r}")
        self._items[key] = value
        return value

    def of(self, *keys: K) -> Callable[[V], V]:
        """The same as a decorator, for one or more keys: `@MEANING.of("add")`."""

        def declare(value: V) -> V:
            for key in keys:
                self.add(key, value)
            return value

        return declare

    def get(self, key: K) -> V | None:
        value = self._items.get(key)
        if value is None and self._rooms:
            self._load()
            value = self._items.get(key)
        return value

    def items(self):
        self._load()
        return self._items.items()

    def __getitem__(self, key: K) -> V:
        try:
            return self._items[key]
        except KeyError:
            if self._rooms:
                self._load()
                return self[key]
            known = ", ".join(sorted(map(str, self._items)))
            raise KeyError(f"no {self.what} for {key!r}; known: {known}") from None

    def __contains__(self, key: object) -> bool:
        if key not in self._items and self._rooms:
            self._load()
        return key in self._items

    def __iter__(self) -> Iterator[K]:
        self._load()
        return iter(self._items)

    def __len__(self) -> int:
        self._load()
        return len(self._items)


class ByClass(Registry[type, V]):
    """What handles objects by their class: that of the class itself, or of the nearest base."""

    def for_class(self, cls: type) -> V:
        """What handles objects of a class; a KeyError that names those known where nothing does."""
        for base in cls.__mro__:
            if base in self._items:
                return self._items[base]
        return self[cls]


@cache
def load_room(
    package: str, without: tuple[str, ...] = (), only: tuple[str, ...] | None = None
) -> None:
    """Import every file of a folder, in name order, so that each may register itself; once.

    Files whose names begin with one of `without` are left out; `only` names all that are wanted.
    """
    for name in only or ():
        import_module(f"{package}.{name}")
    if only is not None:
        return
    for module in sorted(iter_modules(import_module(package).__path__), key=lambda m: m.name):
        if not module.name.startswith(without):
            import_module(f"{package}.{module.name}")
