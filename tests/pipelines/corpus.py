"""Two small repositories with something in every branch of the pipeline."""

from __future__ import annotations

from pathlib import Path

from tests.pipelines.repositories import commit

SHOP: dict[str, str | bytes] = {
    "README.md": "# Shop\n\nA small shop.\n\n## Prices\n\nPrices are in cents.\n",
    "shop/cart.py": '''"""The cart."""

TAX = 0.19


class Cart:
    """Items somebody wants to buy."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def add(self, cents: int) -> None:
        """Add an item by its price in cents."""
        self.items.append(cents)

    def total(self) -> int:
        """Sum of all prices with tax."""
        return round(sum(self.items) * (1 + TAX))


def parse_price(text: str) -> int:
    """Read a price like '12,50 €' into cents."""
    return int(text.strip(" €").replace(",", ""))
''',
    "web/app.ts": "export function renderCart(items: number[]): string {\n  return items.join('\\n');\n}\n",
    "web/logo.png": b"\x89PNG\r\n",
    "latin.c": b"/* caf\xe9 */\nint add(int a, int b) { return a + b; }\n",
}
TOOLS: dict[str, str | bytes] = {
    "retry.go": "package tools\n\n// Retry calls f until it succeeds.\nfunc Retry(n int, f func() error) error {\n"
    "\tvar err error\n\tfor i := 0; i < n; i++ {\n\t\tif err = f(); err == nil {\n\t\t\treturn nil\n\t\t}\n\t}\n"
    "\treturn err\n}\n",
    "queue.rs": "pub struct Queue { items: Vec<u32> }\n\nimpl Queue {\n    /// Take the oldest item.\n"
    "    pub fn pop(&mut self) -> Option<u32> {\n        self.items.pop()\n    }\n}\n",
}


def write_shop(folder: Path) -> Path:
    """A repository named ``shop`` below the folder."""
    commit(folder / "shop", SHOP)
    return folder / "shop"


def write_tools(folder: Path) -> Path:
    """A repository named ``tools`` below the folder."""
    commit(folder / "tools", TOOLS)
    return folder / "tools"
