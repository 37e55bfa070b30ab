"""Tiny repositories, one for each way in which languages import, and what their files import of each other."""

from __future__ import annotations

from typing import NamedTuple


class Tree(NamedTuple):
    """A repository; ``resolved`` lists every file that imports another, ``names`` those whose name is told here."""

    files: dict[str, str]
    resolved: dict[str, list[str]]
    names: dict[str, tuple[str, str]]
    """(module, package) by path."""


PYTHON = Tree(
    {
        "src/shop/__init__.py": "from .cart import Cart as Basket\nfrom .money import *\n",
        "src/shop/cart.py": "import json\nfrom . import money\nfrom .deep.tax import rate\nimport shop.cart\n",
        "src/shop/money.py": "def cents(): pass\n",
        "src/shop/deep/__init__.py": "",  # empty, so it is not indexed, and still makes a package
        "src/shop/deep/tax.py": "from ..money import cents\nfrom ... import nowhere\nimport missing.module\n",
        "src/shop/json.py": "x = 1\n",
        "tests/helpers.py": "def check(): pass\n",
        "tests/unit/test_shop.py": "import helpers\nfrom shop import Basket, cents, deep\nimport shop.deep.tax as t\n",
        "lib/plugins/one.py": "from app.core import start\n",
        "layers/app/core/__init__.py": "from app.extra import more\n",
        "more/app/extra/__init__.py": "def more(): pass\n",
        "script.py": "import shop.nothing\nfrom app import core\n",
    },
    {
        "src/shop/__init__.py": ["src/shop/cart.py", "src/shop/money.py"],
        "src/shop/cart.py": ["src/shop/deep/tax.py", "src/shop/money.py"],
        "src/shop/deep/tax.py": ["src/shop/money.py"],
        "tests/unit/test_shop.py": [
            "src/shop/__init__.py", "src/shop/cart.py", "src/shop/deep/tax.py", "src/shop/money.py", "tests/helpers.py",
        ],
        "lib/plugins/one.py": ["layers/app/core/__init__.py"],
        "layers/app/core/__init__.py": ["more/app/extra/__init__.py"],
        "script.py": ["layers/app/core/__init__.py"],
    },
    {
        "src/shop/__init__.py": ("shop", ""),
        "src/shop/deep/tax.py": ("shop.deep.tax", "shop.deep"),
        "layers/app/core/__init__.py": ("app.core", "app"),
        "more/app/extra/__init__.py": ("app.extra", "app"),
        "lib/plugins/one.py": ("plugins.one", "plugins"),
        "tests/unit/test_shop.py": ("tests.unit.test_shop", "tests.unit"),
        "script.py": ("script", ""),
    },
)  # fmt: skip

PYTHON_PACKAGE = Tree(
    {
        "__init__.py": "from shop.cart import Cart\n",
        "cart.py": "from shop.deep import tax\nimport json.decoder\n",
        "deep/__init__.py": "from shop import Cart\n",
        "deep/tax.py": "from ..cart import Cart\n",
        "scripts/run.py": "import shop\n",
    },
    {
        "__init__.py": ["cart.py"],
        "cart.py": ["deep/tax.py"],
        "deep/__init__.py": ["__init__.py", "cart.py"],
        "deep/tax.py": ["cart.py"],
        "scripts/run.py": ["__init__.py"],
    },
    {
        "__init__.py": ("shop", ""),
        "deep/__init__.py": ("shop.deep", "shop"),
        "deep/tax.py": ("shop.deep.tax", "shop.deep"),
        "scripts/run.py": ("scripts.run", "scripts"),
    },
)

ECMASCRIPT = Tree(
    {
        "package.json": '{"name": "root", "main": "./src/main.js"}',
        "tsconfig.json": "{ // comments are allowed\n"
        ' "compilerOptions": {"baseUrl": ".", "paths": {"@/*": ["src/*"],}},}',
        "src/app.ts": "import { start, Stop as S } from './lib';\nimport '@/util/log';\nimport fs from 'node:fs';\n"
        "import { Pad } from '@team/pad';\nimport './gone';\nimport '../../outside';\n"
        "import data from './data.json';\n",
        "src/main.js": "const app = require('./app');\nimport('./util/log.js');\nrequire('react');\n",
        "src/lib/index.ts": "export { start } from './start';\nexport * from './stop';\nexport * from './other';\n",
        "src/lib/start.ts": "export function start() {}\n",
        "src/lib/stop.tsx": "import type { start } from '.';\nexport class Stop {}\n",
        "src/lib/other.ts": "export const other = 1;\n",
        "src/util/log.ts": "import x from 'src/app';\n",
        "src/data.json": '{"a": 1}',
        "packages/pad/package.json": '{"name": "@team/pad", "exports": {".": {"import": "./source/pad.mjs"}}}',
        "packages/pad/source/pad.mjs": "import 'root';\nimport '@team/pad/source/deep.spec';\n",
        "packages/pad/source/deep.spec.js": "export {};\n",
    },
    {
        "src/app.ts": [
            "packages/pad/source/pad.mjs",
            "src/lib/index.ts",
            "src/lib/start.ts",
            "src/lib/stop.tsx",
            "src/util/log.ts",
        ],
        "src/main.js": ["src/app.ts", "src/util/log.ts"],
        "src/lib/index.ts": ["src/lib/other.ts", "src/lib/start.ts", "src/lib/stop.tsx"],
        "src/lib/stop.tsx": ["src/lib/index.ts", "src/lib/start.ts"],
        "src/util/log.ts": ["src/app.ts"],
        "packages/pad/source/pad.mjs": ["packages/pad/source/deep.spec.js", "src/main.js"],
    },
    {
        "src/lib/index.ts": ("src.lib", "src"),
        "src/lib/stop.tsx": ("src.lib.stop", "src.lib"),
        "packages/pad/source/deep.spec.js": ("packages.pad.source.deep.spec", "packages.pad.source.deep"),
    },
)

GO = Tree(
    {
        "go.mod": "// the module\nmodule example.org/team/app\n\ngo 1.22\n",
        "main.go": 'package main\n\nimport (\n\t"fmt"\n\t"example.org/team/app/store"\n\t"example.org/other/x"\n'
        ")\n\nfunc main() {}\n",
        "store/open.go": "package store\n\nfunc Open() {}\n",
        "store/close.go": 'package store\n\nimport "example.org/team/app/tools/log"\n',
        "store/open_test.go": 'package store_test\n\nimport "example.org/team/app/store"\n',
        "tools/go.mod": 'module "example.org/tools"\n',
        "tools/log/log.go": "package logging\n",
        "tools/cmd/run.go": 'package main\n\nimport . "example.org/tools/log"\n',
    },
    {
        "main.go": ["store/close.go", "store/open.go"],
        "store/open_test.go": ["store/close.go", "store/open.go"],
        "tools/cmd/run.go": ["tools/log/log.go"],
    },
    {
        "main.go": ("main", "example.org/team/app"),
        "store/open.go": ("store", "example.org/team/app/store"),
        "tools/log/log.go": ("logging", "example.org/tools/log"),
    },
)

RUST = Tree(
    {
        "Cargo.toml": '[workspace]\nmembers = ["core-lib"]\n\n[package]\nversion = "1"\nname = "app"\n',
        "src/main.rs": "mod net;\nmod store;\nuse crate::store::Disk;\nuse crate::Own;\nuse core_lib::shape::Circle;\n"
        "use serde::Serialize;\nfn main() {}\n",
        "src/net/mod.rs": "mod tcp;\npub use self::tcp::Socket;\nuse super::store;\n",
        "src/net/tcp.rs": "use super::super::store::Disk;\nuse super::Missing;\n#[cfg(test)]\n"
        "mod tests { use super::*; }\n",
        "src/store.rs": "mod page;\nuse page::Page;\nuse std::io;\n",
        "src/store/page.rs": "use crate::net::tcp::{self, Socket};\n",
        "core-lib/Cargo.toml": '[package]\nname = "core-lib"\n',
        "core-lib/src/lib.rs": "pub mod shape;\n",
        "core-lib/src/shape.rs": "pub struct Circle;\n",
        "core-lib/tests/it.rs": "mod common;\nuse core_lib::shape;\nuse crate::common::help;\n",
        "core-lib/tests/common/mod.rs": "pub fn help() {}\n",
    },
    {
        "src/main.rs": ["core-lib/src/shape.rs", "src/net/mod.rs", "src/store.rs"],
        "src/net/mod.rs": ["src/net/tcp.rs", "src/store.rs"],
        "src/net/tcp.rs": ["src/net/mod.rs", "src/store.rs"],
        "src/store.rs": ["src/store/page.rs"],
        "src/store/page.rs": ["src/net/tcp.rs"],
        "core-lib/src/lib.rs": ["core-lib/src/shape.rs"],
        "core-lib/tests/it.rs": ["core-lib/src/shape.rs", "core-lib/tests/common/mod.rs"],
    },
    {
        "src/main.rs": ("app", ""),
        "src/net/tcp.rs": ("app.net.tcp", "app.net"),
        "src/net/mod.rs": ("app.net", "app"),
        "core-lib/src/shape.rs": ("core_lib.shape", "core_lib"),
        "core-lib/tests/it.rs": ("core_lib.tests.it", "core_lib.tests"),
    },
)

JVM = Tree(
    {
        "java/org/shop/Cart.java": "package org.shop;\n\nimport java.util.List;\nimport org.shop.money.*;\n"
        "import org.shop.tax.Rates.Inner;\nimport static org.shop.tax.Rates.of;\n\npublic class Cart { Cents c; }\n",
        "java/org/shop/money/Cents.java": "package org.shop.money;\n\npublic class Cents {}\n",
        "java/org/shop/money/Euros.java": "package org.shop.money;\n\npublic class Euros { class Rates {} }\n",
        "java/org/shop/tax/Rates.java": "package org.shop.tax;\n\n"
        "public class Rates { public static class Inner {} }\n",
        "kotlin/Till.kt": "package org.till\n\nimport org.shop.Cart as Bag\nimport org.till.print.receipt\n"
        "import org.till.print.total\n\nclass Till\n",
        "kotlin/Printer.kt": "package org.till.print\n\nfun receipt() {}\n",
        "kotlin/Lists.kt": "package org.till.print\n\nfun <T> List<T>.total() {}\n",
        "scala/Shop.scala": "package org\npackage shop.web\n\nimport org.till.{Till => T, Nothing}\n"
        "import pages.Page\n\nobject Shop\n",
        "scala/Page.scala": "package org.shop.web.pages\n\nclass Page\n",
        "one/Twin.java": "package org.twins;\n\npublic class Twin {}\n",
        "one/User.java": "package org.twins.user;\n\nimport org.twins.Twin;\n\nclass User {}\n",
        "two/Twin.java": "package org.twins;\n\npublic class Twin {}\n",
    },
    {
        "java/org/shop/Cart.java": ["java/org/shop/money/Cents.java", "java/org/shop/tax/Rates.java"],
        "kotlin/Till.kt": ["java/org/shop/Cart.java", "kotlin/Lists.kt", "kotlin/Printer.kt"],
        "scala/Shop.scala": ["kotlin/Till.kt", "scala/Page.scala"],
        "one/User.java": ["one/Twin.java"],
    },
    {
        "java/org/shop/Cart.java": ("org.shop.Cart", "org.shop"),
        "kotlin/Printer.kt": ("org.till.print.Printer", "org.till.print"),
        "scala/Shop.scala": ("org.shop.web.Shop", "org.shop.web"),
    },
)

CSHARP = Tree(
    {
        "App/Program.cs": "using System;\nusing Shop.Money;\nusing static Shop.Tools.Text;\n"
        "using B = Shop.Tools.Box<int>;\n"
        "namespace App;\nclass Program { static void Main() { var c = new Cents(); } }\n",
        "Shop/Cents.cs": "namespace Shop.Money { public class Cents {} }\n",
        "Shop/Euros.cs": "namespace Shop.Money;\npublic class Euros {}\n",
        "Shop/Text.cs": "namespace Shop.Tools;\npublic static class Text {}\n",
        "Shop/Box.cs": "namespace Shop.Tools;\npublic class Box<T> {}\n",
    },
    {"App/Program.cs": ["Shop/Box.cs", "Shop/Cents.cs", "Shop/Text.cs"]},
    {"Shop/Cents.cs": ("Shop.Money.Cents", "Shop.Money"), "App/Program.cs": ("App.Program", "App")},
)

PHP = Tree(
    {
        "public/index.php": "<?php\nrequire __DIR__ . '/../src/helpers.php';\nrequire_once 'boot.php';\n"
        "use Shop\\Cart;\n"
        "use Shop\\Money\\{Cents, Euros as E};\nuse function Shop\\total;\nuse Vendor\\Thing;\n",
        "public/boot.php": "<?php\nuse Shop\\Money;\n$x = new Money\\Cents();\n",
        "src/helpers.php": "<?php\nnamespace Shop;\nfunction total() {}\n",
        "src/Cart.php": "<?php\nnamespace Shop;\nclass Cart {}\n",
        "src/Money/Cents.php": "<?php\nnamespace Shop\\Money { class Cents {} }\n",
        "src/Money/Euros.php": "<?php\nnamespace Shop\\Money;\nfinal class Euros {}\n",
    },
    {
        "public/index.php": [
            "public/boot.php",
            "src/Cart.php",
            "src/Money/Cents.php",
            "src/Money/Euros.php",
            "src/helpers.php",
        ],
        "public/boot.php": ["src/Money/Cents.php"],
    },
    {"src/Cart.php": ("Shop.Cart", "Shop"), "public/index.php": ("public.index", "public")},
)

C = Tree(
    {
        "src/ring.c": '#include "ring.h"\n#include "util/log.h"\n#include <stdio.h>\n#include <ring/api.h>\n'
        '#include "twin.h"\n',
        "src/ring.h": '#include "ring.h"\nint ring;\n',
        "lib/util/log.h": "int log;\n",
        "include/ring/api.h": "int api;\n",
        "a/twin.h": "int twin;\n",
        "b/twin.h": "int twin;\n",
        "stdio.h": "int mine;\n",
        "app/main.cpp": '#include "../src/ring.h"\n#include "src/ring.h"\n#include "../../out.h"\nint main() {}\n',
    },
    {
        "src/ring.c": ["include/ring/api.h", "lib/util/log.h", "src/ring.h"],
        "app/main.cpp": ["src/ring.h"],
    },
    {"src/ring.c": ("src.ring", "src")},
)

RUBY = Tree(
    {
        "lib/shop.rb": "require 'shop/cart'\nrequire 'json'\nmodule Shop\n  autoload :Money, 'shop/money'\nend\n",
        "lib/shop/cart.rb": "require_relative 'money'\nrequire_relative '../shop'\n",
        "lib/shop/money.rb": "class Money; end\n",
        "spec/cart_spec.rb": "require 'shop'\nrequire './spec/helper'\nrequire_relative 'helper.rb'\n",
        "spec/helper.rb": "x = 1\n",
        "Rakefile": "require 'shop/money'\n",
    },
    {
        "lib/shop.rb": ["lib/shop/cart.rb", "lib/shop/money.rb"],
        "lib/shop/cart.rb": ["lib/shop.rb", "lib/shop/money.rb"],
        "spec/cart_spec.rb": ["lib/shop.rb", "spec/helper.rb"],
        "Rakefile": ["lib/shop/money.rb"],
    },
    {
        "lib/shop/cart.rb": ("shop.cart", "shop"),
        "spec/helper.rb": ("spec.helper", "spec"),
        "Rakefile": ("Rakefile", ""),
    },
)

BASH = Tree(
    {
        "bin/run.sh": '#!/bin/bash\nsource "$(dirname "$0")/lib.sh"\n. ../shared/log.sh\n'
        'source "${ROOT}/shared/net.sh"\n'
        "source $HOME/.bashrc\n. /etc/profile\n",
        "bin/lib.sh": "source log.sh\n",
        "shared/log.sh": "x=1\n",
        "shared/net.sh": "x=1\n",
    },
    {"bin/run.sh": ["bin/lib.sh", "shared/log.sh", "shared/net.sh"], "bin/lib.sh": ["shared/log.sh"]},
    {"bin/lib.sh": ("bin.lib", "bin")},
)

ELIXIR = Tree(
    {
        "lib/shop.ex": "defmodule Shop do\n  alias Shop.{Cart, Money.Cents}\n  alias Shop.Tax\n  import Ecto.Query\n"
        "  alias __MODULE__.Cart.Line\n  alias Shop.Nowhere.Deep\n  use Tax.Rates\n  def go, do: Tax.Duty.of(1)\nend\n",
        "lib/shop/cart.ex": "defmodule Shop.Cart do\n  require Shop\n"
        "  defmodule Line do\n    use Shop.Cart\n  end\nend\n",
        "lib/shop/money.ex": "defmodule Shop.Money.Cents do\nend\ndefmodule Shop.Money.Euros do\nend\n",
        "lib/shop/tax/rates.ex": "defmodule Shop.Tax.Error do\nend\ndefmodule Shop.Tax.Rates do\nend\n",
        "lib/shop/tax/duty.ex": "defmodule Shop.Tax.Duty do\n  def of(x), do: x\nend\n",
        "test/shop_test.exs": "defmodule ShopTest do\n  use ExUnit.Case\n"
        "  import Shop.Money.Euros\n  alias Shop.Cart, as: C\nend\n",
        "mix.exs": "x = 1\n",
    },
    {
        "lib/shop.ex": ["lib/shop/cart.ex", "lib/shop/money.ex", "lib/shop/tax/duty.ex", "lib/shop/tax/rates.ex"],
        "lib/shop/cart.ex": ["lib/shop.ex"],
        "test/shop_test.exs": ["lib/shop/cart.ex", "lib/shop/money.ex"],
    },
    {
        "lib/shop.ex": ("Shop", ""),
        "lib/shop/money.ex": ("Shop.Money.Cents", "Shop.Money"),
        "lib/shop/tax/rates.ex": ("Shop.Tax.Rates", "Shop.Tax"),
        "mix.exs": ("mix", ""),
    },
)

HASKELL = Tree(
    {
        "src/Shop.hs": "module Shop where\nimport Shop.Cart\nimport qualified Data.Map as M\n"
        "import Shop.Money hiding (cents)\n",
        "src/Shop/Cart.hs": "module Shop.Cart (Cart) where\nimport Shop.Money (cents)\ndata Cart = Cart\n",
        "src/Shop/Money.hs": "module Shop.Money where\ncents = 1\n",
        "lib/Odd.hs": "module Shop.Elsewhere where\nx = 1\n",
        "app/Main.hs": "import Shop\nimport Shop.Elsewhere\nimport Shop.Gone\nmain = go\n",
        "other/Money.hs": "module Shop.Money where\ncents = 2\n",
    },
    {
        "src/Shop.hs": ["src/Shop/Cart.hs", "src/Shop/Money.hs"],
        "src/Shop/Cart.hs": ["src/Shop/Money.hs"],
        "app/Main.hs": ["lib/Odd.hs", "src/Shop.hs"],
    },
    {
        "src/Shop/Cart.hs": ("Shop.Cart", "Shop"),
        "lib/Odd.hs": ("Shop.Elsewhere", "Shop"),
        "app/Main.hs": ("app.Main", "app"),
    },
)

LUA = Tree(
    {
        "lua/shop/init.lua": "local cart = require('shop.cart')\n"
        "local tax = require(\"shop.tax\")\nrequire 'vim.lsp'\n",
        "lua/shop/cart.lua": "local ok, util = pcall(require, 'shop.util')\nrequire('shop')\n",
        "lua/shop/util.lua": "return {}\n",
        "lua/shop/tax/init.lua": "return { rate = require('shop.tax.rate') }\n",
        "lua/shop/tax/rate.lua": "return 1\n",
        "spec/cart_spec.lua": "local shop = require('shop')\nlocal help = require('spec.help')\n",
        "spec/help.lua": "local n = require('deep.only')\nlocal d = require(name)\n",
        "pkg/src/deep/only.lua": "return 2\n",
    },
    {
        "lua/shop/init.lua": ["lua/shop/cart.lua", "lua/shop/tax/init.lua"],
        "lua/shop/cart.lua": ["lua/shop/init.lua", "lua/shop/util.lua"],
        "lua/shop/tax/init.lua": ["lua/shop/tax/rate.lua"],
        "spec/cart_spec.lua": ["lua/shop/init.lua", "spec/help.lua"],
        "spec/help.lua": ["pkg/src/deep/only.lua"],
    },
    {
        "lua/shop/init.lua": ("shop", ""),
        "lua/shop/tax/rate.lua": ("shop.tax.rate", "shop.tax"),
        "pkg/src/deep/only.lua": ("deep.only", "deep"),
        "spec/help.lua": ("spec.help", "spec"),
    },
)

ZIG = Tree(
    {
        "build.zig": 'const std = @import("std");\nconst deps = @import("build.zig.zon");\n',
        "src/main.zig": 'const std = @import("std");\nconst shop = @import("shop.zig");\n'
        'const Cart = @import("shop/cart.zig").Cart;\nconst gone = @import("../../gone.zig");\npub fn main() void {}\n',
        "src/shop.zig": 'pub const cart = @import("./shop/cart.zig");\n',
        "src/shop/cart.zig": 'const shop = @import("../shop.zig");\nconst other = @import("shop");\n'
        "pub const Cart = struct { x: u8 };\n",
    },
    {
        "src/main.zig": ["src/shop.zig", "src/shop/cart.zig"],
        "src/shop.zig": ["src/shop/cart.zig"],
        "src/shop/cart.zig": ["src/shop.zig"],
    },
    {"src/shop/cart.zig": ("src.shop.cart", "src.shop"), "build.zig": ("build", "")},
)

NO_FILES = Tree(
    {
        "Sources/App.swift": "import Foundation\nimport Shop\n@main struct App {}\n",
        "Sources/Shop.swift": "public struct Shop {}\n",
        "db/schema.sql": "CREATE TABLE item (x INT);\n",
    },
    {},
    {"Sources/App.swift": ("Sources.App", "Sources"), "db/schema.sql": ("db.schema", "db")},
)

TREES: dict[str, Tree] = {
    "python": PYTHON,
    "a python package": PYTHON_PACKAGE,
    "ecmascript": ECMASCRIPT,
    "go": GO,
    "rust": RUST,
    "jvm": JVM,
    "csharp": CSHARP,
    "php": PHP,
    "c": C,
    "ruby": RUBY,
    "elixir": ELIXIR,
    "haskell": HASKELL,
    "lua": LUA,
    "zig": ZIG,
    "bash": BASH,
    "swift and sql": NO_FILES,
}
