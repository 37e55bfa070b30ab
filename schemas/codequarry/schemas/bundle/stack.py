"""Relation of a delta version to its base: the arrays of ``stack/`` in its folder.

A delta version is an ordinary version of the source files that differ from a complete one, its base, with one folder
more. Its own tables and arrays count files, chunks and definitions from 0, as in any version. In the *stack* of both,
numbers of the base stay as they are, and those of the delta follow: file ``i`` of the delta is file ``F + i`` of the
stack, chunk row ``i`` is row ``N + i``, definition ``i`` is definition ``S + i``, where the base has F files (rows of
``files_mat``), N chunks and S definitions (rows of ``symbols_mat``).

============ ==========================================================================================================
hidden.npy   (h,) int32, ascending: files of the base that are changed or gone; their rows count no longer
strings.npy  (s,) int32: for each string of the delta's ``rows/``, its number in the base's, or -1
names.npy    (k, 2) int32: ``name_id`` in the delta and in the base, of each name that both define
dead.npy     (d, 3) int32: ``name_id`` of the base, first and last file of the base: places in these files that name it
             without defining it count no longer, because no file of their repository defines the name any more
places.npy   (p,) of `PLACE`, by target and place, in numbers of the stack: places that name something which is defined
             on the other side. They lie in files of the delta and name what only the base defines, or in files of the
             base and name what only the delta defines
============ ==========================================================================================================

No indexer runs for a delta: its files are known by syntax. Where SCIP described some of the base's files, there are two
more arrays:

============ ==========================================================================================================
successors   (m, 2) int32, by the first: definition of the delta, and the ``target_id`` in the base of what it takes the
.npy         place of: a symbol with a hidden definition of the same qualified name in the same file. Places that name
             the symbol name this definition; relations that its file states are left out
lost.npy     (l,) int32, ascending: ``target_id`` in the base of each symbol all of whose definitions are hidden, and
             which has no successor. What the base knows precisely of it counts no longer; ``places.npy`` has the
             identifiers that are its name, as long as something has that name
============ ==========================================================================================================

What the base names without defining it, such as symbols of a standard library, has numbers past the definitions of the
base, where those of the delta are in the stack. They are moved up there, by `OUTSIDE`.
"""

from __future__ import annotations

import numpy as np

HIDDEN, STRINGS, NAMES, DEAD, PLACES = "hidden", "strings", "names", "dead", "places"
SUCCESSORS, LOST = "successors", "lost"
"""Stems of the files."""
STACK_ARRAYS = (HIDDEN, STRINGS, NAMES, DEAD, PLACES)
"""Arrays of every delta version."""
SCIP_ARRAYS = (SUCCESSORS, LOST)
"""Arrays of those whose base SCIP described."""
OUTSIDE = 1 << 30
"""Added to the number of what the base does not define; no base has so many definitions."""
PLACE = np.dtype(
    [
        ("target_id", np.int32),
        ("file", np.int32),
        ("roles", np.int16),
        ("start_line", np.int32),
        ("start_column", np.int32),
        ("lines", np.int32),
        ("width", np.int32),
        ("enclosing", np.int32),
        ("chunk", np.int32),
    ]
)
"""Columns of ``occurrences_mat``; none is precise."""
