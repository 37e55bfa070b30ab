"""A repository that SCIP indexed, and files that it did not."""

from __future__ import annotations

from tests.serving.bundles.symbol_rows import Source

PREFIX = "scip-python python quarry 1 "
OUTSIDE = "scip-python python python-stdlib 3.11 os/path."

INDEX = Source(
    "io/index.py",
    """LIMIT = 3


class Index:
    '''Größe: an index.'''

    def open(self, path):
        größe = LIMIT; opened = path
        return opened


    def close(self):
        pass
""",
    cut="    def",
)
MODULE, LIMIT, CLASS = (PREFIX + end for end in ("`io.index`/__init__:", "`io.index`/LIMIT.", "`io.index`/Index#"))
OPEN, CLOSE, PATH = (PREFIX + f"`io.index`/Index#{end}" for end in ("open().", "close().", "open().(path)"))
INDEX.occur(MODULE, "", "definition")
INDEX.occur(LIMIT, "LIMIT", "definition")
INDEX.occur(LIMIT, "LIMIT", nth=1)
INDEX.occur(CLASS, "Index", "definition")
INDEX.occur(OPEN, "open", "definition")
INDEX.occur(CLOSE, "close", "definition")
INDEX.occur(PATH, "path", "definition")
INDEX.occur(PATH, "path", nth=1)
INDEX.occur("local 0", "opened", "definition")
INDEX.occur("local 0", "opened", nth=1)
INDEX.describe(MODULE, ["io.index", "__init__"], "module")
INDEX.describe(LIMIT, ["io.index", "LIMIT"], "term", signature="builtins.int")
INDEX.describe(CLASS, ["io.index", "Index"], "class", documentation="  From SCIP.  ")
INDEX.describe(OPEN, ["io.index", "Index", "open"], "method", documentation="Open it.")
INDEX.describe(CLOSE, ["io.index", "Index", "close"], "method")
INDEX.describe(PATH, ["io.index", "Index", "open", "path"], "parameter")
INDEX.define("Index", "class", doc="Größe: an index.", body=INDEX.text[INDEX.text.index("class Index") :])
INDEX.define(
    "Index.open", "method", body=INDEX.text[INDEX.text.index("def open") : INDEX.text.index("\n\n\n    def close")]
)
INDEX.define("Index.close", "method")

STORE = Source(
    "io/store.py",
    """from io.index import Index
import os


class Store(Index):
    def open(self, path):
        return Index().open(os.path, path)


def use(store: Store, other):
    store.open('x'); other.open('y')
    other.close()
""",
)
STORE_CLASS, STORE_OPEN = PREFIX + "`io.store`/Store#", PREFIX + "`io.store`/Store#open()."
STORE.occur(CLASS, "Index", "import")
STORE.occur(STORE_CLASS, "Store", "definition")
STORE.occur(CLASS, "Index", nth=1)
STORE.occur(STORE_OPEN, "open", "definition")
STORE.occur(CLASS, "Index", nth=2)
STORE.occur(OPEN, "open", nth=1)
STORE.occur(OUTSIDE, "path", nth=1)
STORE.occur("local 0", "use", "definition")
STORE.occur(STORE_CLASS, "Store", nth=1)
STORE.occur(STORE_OPEN, "open", nth=2)
STORE.describe(STORE_CLASS, ["io.store", "Store"], "class", relationships=[f"implementation {CLASS}"])
STORE.describe(STORE_OPEN, ["io.store", "Store", "open"], "method", relationships=[f"implementation {OPEN}"])
STORE.define(
    "Store", "class", body="class Store(Index):\n    def open(self, path):\n        return Index().open(os.path, path)"
)
STORE.define("Store.open", "method", body="def open(self, path):\n        return Index().open(os.path, path)")
STORE.define("use", "function", body=STORE.text[STORE.text.index("def use") :].rstrip())
STORE.refer("Index", "import")
STORE.refer("Index", "type", nth=1)
STORE.refer("Index", "call", nth=2)
STORE.refer("open", "call", nth=1)
STORE.refer("Store", "type", nth=1)
STORE.refer("open", "call", nth=2)
STORE.refer("open", "call", nth=3)
STORE.refer("close", "call")

TEST = Source("tests/test_index.py", "from io.index import Index\n\n\ndef test_open():\n    Index().open(1)\n")
TEST.occur(CLASS, "Index", "import")
TEST.occur(CLASS, "Index", nth=1)
TEST.occur(OPEN, "open")
TEST.define("test_open", "function", body="def test_open():\n    Index().open(1)")
TEST.refer("Index", "import")
TEST.refer("open", "call")

APP = Source("web/app.ts", "export function open(index) {\n  return fetchIt(index);\n}\nopen(1); open(2);\nOpen();\n")
APP.define("open", "function", body="export function open(index) {\n  return fetchIt(index);\n}")
APP.refer("open", "call", nth=1)
APP.refer("open", "call", nth=2)

CONFIG = Source("config.json", '{"open": 1}\n')
CONFIG.define("open", "key")

OTHER = Source("main.go", "func Open() {}\n\nfunc main() { Open() }\n", repo="gateway")
OTHER.define("Open", "function", body="func Open() {}")
OTHER.define("main", "function", body="func main() { Open() }")
OTHER.refer("Open", "call", nth=1)

SOURCES = [INDEX, STORE, TEST, APP, CONFIG, OTHER]
