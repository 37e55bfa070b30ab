"""``codequarry fleet watch`` builds what moved, told by webhooks or found by polls."""

from __future__ import annotations

import hmac
import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from codequarry.schemas.fleet.generation import FleetManifest
from tests.pipelines.cli.watch.watch_process import COMMAND, DEADLINE_S
from tests.pipelines.fleet.fleets import NAMES, Fleet, wait_until
from tests.pipelines.repositories import commit

SECRET = "4f0a-of-this-test"
Expect = Callable[[str], str]


@contextmanager
def watching(fleet: Fleet, *arguments: str) -> Iterator[Expect]:
    """Run the watch; gives a function that waits for a line with a text, and returns the lines up to it."""
    environment = {**os.environ, "COLUMNS": "400", "CODEQUARRY_WEBHOOK_SECRET": f"older {SECRET}"}
    with subprocess.Popen(
        [*COMMAND, "fleet", "watch", "--settings", "fleet.toml", *arguments],
        cwd=fleet.home, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")

        def expect(text: str) -> str:
            said = ""
            for line in lines:
                said += line
                if text in line:
                    return said
            raise AssertionError(f"{text!r} is not in:\n{said}")

        # Without its last line a test would wait for ever.
        ending = threading.Timer(DEADLINE_S, process.kill)
        ending.start()
        try:
            yield expect
            process.terminate()
            expect("stopped watching the fleet")
            assert process.wait(60) == 0
        finally:
            ending.cancel()
            process.kill()


def push(address: str, fleet: Fleet, name: str, ref: str = "refs/heads/main", secret: str = SECRET) -> int:
    """Send the webhook of a push as GitHub does; returns the status."""
    repository = {"full_name": f"team/{name}", "clone_url": f"file://{fleet.home}/{name}", "default_branch": "main"}
    body = json.dumps({"ref": ref, "repository": repository}).encode()
    signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "push",
        "X-Hub-Signature-256": f"sha256={signature}",
    }
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def _failures(manifest: FleetManifest) -> Iterator[object]:
    for entry in manifest.bundles.values():
        yield entry.failed
        yield from (each.failed for each in entry.repositories.values())


def health_of(address: str) -> dict[str, object]:
    with urllib.request.urlopen(address.replace("/webhook", "/healthz")) as answer:
        return json.load(answer)


def test_a_signed_push_is_built_and_nothing_else_is_looked_at(local: Fleet) -> None:
    local.remote = NAMES
    local.write(names=())
    with watching(local, "--port", "0", "--every", "3600") as expect:
        address = re.findall(r"http://\S+/webhook", expect("Ctrl-C ends it"))[0]
        expect("current is generation 1: 3 bundles, 6 repositories")
        assert push(address, local, "cat", secret="another one") == 401
        expect("refused a webhook: its signature is of another secret")
        head = local.save("cat", "quokka")
        local.save("fox", "unheard")  # nobody tells of it
        assert push(address, local, "cat", ref="refs/heads/feature") == 200
        expect("no repository of the settings is read there")
        assert push(address, local, "cat") == push(address, local, "cat") == 202
        said = expect("current is generation 2")
        assert said.count("b0002 is built anew because cat is at") == 1 and "b0003" not in said
        assert local.current.bundles["b0002"].repositories["cat"].commit == head
        well = {"status": "ok", "generation": 2, "waiting": 0, "failures": 0}
        wait_until(lambda: health_of(address) == well, "the watch is not well after the build that it told of")


def test_polls_find_what_no_webhook_tells_and_settings_are_read_again(local: Fleet) -> None:
    with watching(local, "--every", "1", "--delta") as expect:
        expect("current is generation 1")
        local.save("eel", "quokka")
        said = expect("current is generation 2")
        assert "because eel is at" in said and "no delta version: " in said  # too much of so small a bundle changed
        commit(local.home / "gnu", {"gnu.py": "def gnu(x):\n    return x\n"})
        local.write(names=(*NAMES, "gnu"))
        assert "b0004 is built anew because it is new" in expect("current is generation 3: 4 bundles, 7 repositories")
        (local.home / "fleet.toml").rename(local.home / "away.toml")
        expect("the settings before stay")
        (local.home / "away.toml").rename(local.home / "fleet.toml")
        # What cannot be read is carried, and tried again at each turn, which is said once.
        (local.home / "ant").rename(local.home / "elsewhere")
        said = expect("goes on as it was")
        time.sleep(6)
        (local.home / "elsewhere").rename(local.home / "ant")
        local.save("fox", "quokka")
        said += expect("b0003 is built anew because fox")
        assert len(re.findall(r":\d\d  b0001 goes on as it was", said)) <= 2  # the bundle fails, or the repository
        expect("current is generation")
        wait_until(lambda: not any(_failures(local.current)), "ant is carried though it is back")
    assert json.loads((local.home / ".codequarry/fleet/polled.json").read_text()) == {"after": "gnu"}


def test_a_place_that_does_not_answer_is_tried_again(local: Fleet) -> None:
    place = Path(local.url.removeprefix("file://"))
    with watching(local, "--every", "1") as expect:
        expect("current is generation 1")
        held = place.with_name("away")
        shutil.move(place, held)
        place.write_text("no folder")
        local.save("bee", "quokka")
        expect("it is tried again")
        place.unlink()
        shutil.move(held, place)
        expect("current is generation 2")


def test_a_push_that_nobody_asked_about_leaves_failures_for_later(local: Fleet) -> None:
    (local.home / "ant").rename(local.home / "elsewhere")
    said = local("build", code=3)
    assert "ant is left out" in said
    local.remote = ("cat",)
    local.write(names=tuple(name for name in NAMES if name != "cat"))
    with watching(local, "--port", "0", "--every", "3600") as expect:
        address = re.findall(r"http://\S+/webhook", expect("Ctrl-C ends it"))[0]
        expect("current is generation 2")
        (local.home / "elsewhere").rename(local.home / "ant")
        local.save("cat", "quokka")
        assert push(address, local, "cat") == 202
        said = expect("current is generation 3")
        assert "5 repositories" in said and "ant is left out" in said
        assert health_of(address)["failures"] == 1


def test_webhooks_need_a_secret(local: Fleet) -> None:
    assert "CODEQUARRY_WEBHOOK_SECRET of the environment is not set" in local("watch", "--port", "0", code=2)
