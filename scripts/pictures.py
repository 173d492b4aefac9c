"""Takes docs/images/page-*.webp: the page as it shows a few sessions that run now, the list and one of them, by day and
by night.

The sessions are of a small project that is made for this in /tmp/shop, and of one server with a state directory of its
own; nothing of either is left.
"""

from __future__ import annotations

import base64
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kit import browser
from tests.kit.service import Service, a_service
from tests.kit.visits import TEXT, open_list, show

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
PROJECT = Path("/tmp/shop")
MOST_BYTES = 150_000
SIZES = {"list": (1180, 728), "session": (1180, 690)}
SCALE = 2

PROMPT = r"PS1='\[\e[1;32m\]shop\[\e[0m\] \[\e[34m\]main\[\e[0m\] $ '"

FILES = {
    "prices.py": '''\
"""What things cost."""

from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
RATES = {"de": Decimal("0.19"), "fr": Decimal("0.20")}


def gross(net: Decimal, country: str) -> Decimal:
    """The price with tax, in whole cents."""
    if net < 0:
        raise ValueError(f"a price below nothing: {net}")
    return (net * (1 + RATES[country])).quantize(CENT, ROUND_HALF_UP)


def total(prices: list[Decimal], discount: Decimal = Decimal(0)) -> Decimal:
    """What a basket costs."""
    return sum(prices, Decimal(0)) * (1 - discount)


def invoice(prices: list[Decimal], country: str) -> dict[str, Decimal]:
    """What is owed, and how much of it is tax."""
    net = total(prices)
    owed = gross(net, country)
    return {"net": net, "tax": owed - net, "total": owed}
''',
    "test_prices.py": """\
import unittest
from decimal import Decimal

from prices import gross, total


class Prices(unittest.TestCase):
    def test_gross_has_whole_cents(self):
        self.assertEqual(gross(Decimal("9.99"), "de"), Decimal("11.89"))

    def test_tax_of_every_country(self):
        self.assertEqual(gross(Decimal(100), "fr"), Decimal(120))

    def test_discount_is_rounded(self):
        self.assertEqual(total([Decimal("0.99")], Decimal("0.5")), Decimal("0.50"))
""",
    "orders.sql": """\
create table orders (id integer, customer text, items integer, total text);
insert into orders values (1041, 'Ada', 3, '41.20 €'), (1042, 'Jun', 1, '9.90 €'), (1043, 'Zoë', 12, '230.00 €');
""",
    "Makefile": """\
PARTS = basket cart catalog checkout currency customer invoice payment shipping stock
all:
	@n=0; for part in $(PARTS) $(PARTS) $(PARTS); do n=$$((n + 3)); \\
	printf '\\033[36m[%3d%%]\\033[0m compiling \\033[1m%s.c\\033[0m\\n' $$n $$part; sleep 4; done
""",
    "access.log": "".join(
        f"\033[90m12:0{minute}:{second}\033[0m \033[{colour}m{status}\033[0m {verb:4} /{path}\n"
        for minute, second, colour, status, verb, path in (
            (1, "07", 32, 200, "GET", "basket"),
            (1, "31", 32, 201, "POST", "orders"),
            (2, "04", 33, 404, "GET", "favicon.ico"),
            (2, "48", 32, 200, "GET", "catalog?q=tea"),
            (3, "15", 31, 503, "POST", "payment"),
        )
    ),
}


@contextmanager
def project() -> Iterator[None]:
    """The directory in which the sessions work."""
    PROJECT.mkdir()
    try:
        for name, text in FILES.items():
            (PROJECT / name).write_text(text)
        yield
    finally:
        shutil.rmtree(PROJECT)


def sessions(service: Service) -> None:
    """What runs in the pictures."""

    def new(name: str, *commands: str, rows: int = 24, cols: int = 80) -> None:
        service.result("create_session", name=name, program="bash", cwd=str(PROJECT), rows=rows, cols=cols)
        for command in commands:
            service.result("run", session_id=name, command=command)

    def type_in(name: str, text: str) -> None:
        service.result("send", session_id=name, text=text, enter=True)

    new("migrate", "echo applied 3 migrations")
    type_in("migrate", "exit")
    new("build")
    type_in("build", "make")
    new("orders", "clear")
    type_in("orders", "sqlite3 -box -cmd '.read orders.sql'")
    type_in("orders", "select * from orders;")
    new("logs")
    type_in("logs", "clear; tail -f access.log")
    new("tests", "python3 -m unittest -v")
    new("deploy")
    type_in("deploy", "read -rsp 'Password for deploy: '")
    new("fix", "git init -q .", "python3 -m unittest", "grep -n discount *.py", rows=24, cols=80)
    type_in("fix", "vim -u NONE -c 'syntax on | set number numberwidth=3 ruler background=dark' prices.py")
    service.result("send", session_id="fix", text="/discount\n", enter=False)


def take(page: browser.Page, name: str, scheme: str) -> Path:
    """Write one picture."""
    width, height = SIZES[name]
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=SCALE, mobile=False)
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.value("new Promise((done) => setTimeout(done, 600))")  # a frame or two, and what fades
    picture = page.call("Page.captureScreenshot", format="webp", quality=88)["data"]
    file = IMAGES / f"page-{name}-{scheme}.webp"
    file.write_bytes(base64.b64decode(picture))
    assert file.stat().st_size < MOST_BYTES, f"{file} has {file.stat().st_size} bytes"
    return file


def main() -> int:
    """Take the pictures."""
    with project(), a_service() as service, browser.page() as page:
        home = service.state_dir / "home"
        (home / ".bashrc").write_text(PROMPT + "\n")
        sessions(service)
        open_list(page, service, service.state_dir)
        page.until("document.body.innerText.includes('asks for a secret')")
        page.until("document.body.innerText.includes('230.00')")
        for scheme in ("dark", "light"):
            print(take(page, "list", scheme))
        show(page, "fix")
        page.until(f"{TEXT}.includes('def total')")
        for scheme in ("dark", "light"):
            print(take(page, "session", scheme))
    return 0


if __name__ == "__main__":
    sys.exit(main())
