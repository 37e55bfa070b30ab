"""Path classes: one word for each path, whatever the path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.sources.census import CensusFile
from codequarry.pipelines.sources.path_classes import path_class
from codequarry.schemas.catalog.symbol_views import PATH_CLASSES

EXPECTED = {
    "source": "app.py src/main.go Latest.java contest.kt src/attest.rs lib/protest.py greatest.cs specification.py "
    "src/Spectrum.hs src/aspect.lua lib/latest.ex src/contest.zig "
    "src/manual_entry.py reader.py src/latest/a.py src/contests/a.rb spring-test/A.java snapshots/a.go docstring/a.py "
    "src/sampler/a.py fuzzy/match.c protest/a.ts",
    "test": "tests/app.py test_app.py pkg/app_test.go src/app.test.tsx src/app.spec.ts conftest.py OrderTest.java "
    "OrderTests.cs spec/order_spec.rb src/order_spec.lua lib/order_test.exs "
    "src/OrderSpec.hs Spec.hs src/OrderTest.hs src/order_test.zig "
    "src/__tests__/a.js src/test/java/Order.java testdata/in.go Tests/a.swift "
    "run.bats jvmTest/kotlin/Order.kt src/commonTest/a.kt integration_test/a.dart Order.Tests/Some.cs order-tests/a.kt "
    "AppUITests/a.swift Order.Tests.Performance/Run.cs __testdata__/a.json src/__testfixtures__/a.ts test_suite/a.rs "
    "benches/sort.rs Order.Benchmarks/Run.cs fuzz/fuzz_targets/a.rs util/testutil/db.go",
    "example": "examples/a.py _examples/rest/main.go rpg-examples/a.c samples/b/README.md demo.py "
    "docs_src/../demos/a.ts",
    "docs": "docs/index.html documentation-website/a.kt versioned_docs/a.html docs/conf.py README.md CHANGELOG "
    "LICENSE.txt guide.rst man/tool.1",
    "generated": "api/user_pb2.py user.pb.go api/user_pb2_grpc.pyi gen/client.ts src/schema.generated.ts model.g.dart",
    "vendored": "vendor/x/y.go third_party/lib.c static/jquery-3.7.1.js external/tests/a.c",
    "stub": "app.pyi types/index.d.ts typings/a.ts stubs/x/a.py",
}


@pytest.mark.parametrize(("path", "name"), [(path, name) for name, paths in EXPECTED.items() for path in paths.split()])
def test_a_path_has_its_class(path: str, name: str) -> None:
    assert path_class(path) == name


@given(st.text(min_size=1, max_size=60))
def test_any_path_has_one_of_the_classes(path: str) -> None:
    assert path_class(path) in PATH_CLASSES


def test_what_the_bytes_say_wins_over_the_path() -> None:
    reasons = {
        "generated": "generated",
        "minified": "generated",
        "vendored": "vendored",
        "too_large": "test",
        None: "test",
    }
    found = {reason: CensusFile("tests/a.py", "python", 1, reason).path_class for reason in reasons}
    assert found == reasons
