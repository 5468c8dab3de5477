"""The Fast Downward library: the planner that holds a game's state, applies operators and lists the applicable ones.

Why: one loaded copy holds exactly one state in C globals, so every engine needs a copy of its own. The file on disk is
34 MB, of which 97 % are debug sections that the loader never maps; only the rest is copied.
Invariants: a copy serves one engine at a time; copies are never unloaded (C++ unique symbols are shared between them,
so that unloading one corrupts the others) but go back to a free list when their engine is closed or collected.
"""

from __future__ import annotations

import ctypes
import struct
import tempfile
from pathlib import Path

NAME_BYTES = 1024
OPERATOR_WORDS = 1 + NAME_BYTES // 4 + 1  # struct {int id; char name[1024]; int effects;} as 4-byte words

_free: list[Library] = []


class Library:
    """One loaded copy of the planner. Get it with `borrow`, give it back with `give_back`."""

    def __init__(self) -> None:
        self._c = _load_copy()
        self._room = 0
        self._buffer = ctypes.create_string_buffer(0)
        self._words = memoryview(b"").cast("i")

    def load(self, sas: bytes) -> None:
        """Start the task `sas`, the text that Fast Downward's translator wrote (a malformed one ends the process)."""
        self._c.load_sas(sas)

    def atoms(self) -> list[bytes]:
        """The current value of every state variable, as b"Atom name(a, b)" or b"NegatedAtom name(a, b)"."""
        names = ctypes.create_string_buffer(NAME_BYTES * self._c.get_state_size())
        self._c.get_state(names)
        return _split(names)

    def applicable(self) -> tuple[list[int], list[int]]:
        """Ids of the applicable operators in the planner's order, and how many effects each has."""
        count = self._c.get_applicable_operators_count()
        if count > self._room:
            self._room = 2 * count
            self._buffer = ctypes.create_string_buffer(4 * OPERATOR_WORDS * self._room)
            self._words = memoryview(self._buffer).cast("B").cast("i")
        self._c.get_applicable_operators(self._buffer)
        end = count * OPERATOR_WORDS
        return (
            self._words[0:end:OPERATOR_WORDS].tolist(),
            self._words[OPERATOR_WORDS - 1 : end : OPERATOR_WORDS].tolist(),
        )

    def operator_name(self, index: int) -> str:
        """Name of the operator at `index` of the last `applicable()`, for example "openobject agent1 loc1 fridge1"."""
        start = 4 * (index * OPERATOR_WORDS + 1)
        return ctypes.string_at(ctypes.addressof(self._buffer) + start).decode("cp1252")

    def apply(self, operator: int, effects: int) -> list[bytes]:
        """Apply an applicable operator; its effects in the form of `atoms`."""
        names = ctypes.create_string_buffer(NAME_BYTES * effects)
        self._c.apply_operator(operator, names)
        return _split(names)

    def goal_reached(self) -> bool:
        """Whether the goal holds in the current state."""
        return bool(self._c.check_goal())


def borrow() -> Library:
    """A copy that nobody else uses, loaded when none is free (1.1 MB of memory that stays with the process)."""
    return _free.pop() if _free else Library()


def give_back(library: Library) -> None:
    """Make a borrowed copy free for the next engine."""
    _free.append(library)


def _split(names: ctypes.Array[ctypes.c_char]) -> list[bytes]:
    raw = names.raw
    return [raw[start : raw.index(b"\0", start)] for start in range(0, len(raw), NAME_BYTES)]


def _load_copy() -> ctypes.CDLL:
    from fast_downward.interface import DOWNWARD_LIB_PATH

    with tempfile.TemporaryDirectory() as folder:  # the loader tells copies apart by their file; it may go once loaded
        path = Path(folder, "libdownward.so")
        path.write_bytes(_loadable_part(Path(DOWNWARD_LIB_PATH)))
        c = ctypes.CDLL(str(path))
    c.load_sas.argtypes, c.load_sas.restype = [ctypes.c_char_p], None
    c.get_state.argtypes, c.get_state.restype = [ctypes.c_void_p], None
    c.get_applicable_operators.argtypes, c.get_applicable_operators.restype = [ctypes.c_void_p], None
    c.apply_operator.argtypes = [ctypes.c_int, ctypes.c_void_p]
    c.check_goal.restype = ctypes.c_bool
    return c


def _loadable_part(path: Path) -> bytes:
    """The bytes of a shared library up to the end of its last program segment; all of it when it is no 64-bit ELF
    file."""
    with path.open("rb") as file:
        header = file.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            return header + file.read()
        (table,) = struct.unpack_from("<Q", header, 32)
        entry_bytes, entries = struct.unpack_from("<HH", header, 54)
        file.seek(table)
        segments = file.read(entry_bytes * entries)
        ends = [sum(struct.unpack_from("<Q16xQ", segments, entry_bytes * index + 8)) for index in range(entries)]
        file.seek(0)
        return file.read(max(ends))
