"""Every format of the table is found in code, in comments, in YAML and in URLs, of letters alone as well."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from codequarry.pipelines.secrets.placeholders import is_wordlike
from codequarry.pipelines.secrets.redaction import open_redactor
from codequarry.pipelines.secrets.scanner import ALLOWED, find_secrets
from codequarry.schemas.settings.load import PathsSettings, Settings
from tests.pipelines.secrets.secret_formats import (
    CODE,
    COMMENT,
    FORMATS,
    SURROUNDINGS,
    URL,
    YAML,
    Format,
    has_letters_alone,
    make,
    remains,
    write,
)

FILES = {CODE: "app.py", COMMENT: "run.sh", YAML: "values.yaml", URL: "notes.txt"}
DRAWS = 3
"""Values of each format and surrounding."""
LETTERS_ALONE = tuple(form for form in FORMATS if has_letters_alone(form))


def test_the_table_has_more_than_80_formats_each_in_its_surroundings() -> None:
    assert len({form.name for form in FORMATS}) == len(FORMATS) >= 170
    assert all(form.where for form in FORMATS)
    assert all(sum(where in form.where for form in FORMATS) >= 80 for where in SURROUNDINGS)
    assert len(LETTERS_ALONE) >= 80


@pytest.mark.parametrize("where", SURROUNDINGS)
@pytest.mark.parametrize(("forms", "letters"), [(FORMATS, False), (LETTERS_ALONE, True)], ids=["any", "letters alone"])
def test_every_format_is_found(forms: tuple[Format, ...], letters: bool, where: str, tmp_path: Path) -> None:
    """Of letters drawn at random a few in ten thousand read like words, and are left: of no format more than one."""
    left: Counter[str] = Counter()
    settings = Settings().model_copy(update={"paths": PathsSettings(store=tmp_path)})
    with open_redactor(settings) as redactor:
        for form in (form for form in forms if where in form.where):
            generator = random.Random(f"{form.name} {where} {letters}")
            for _ in range(DRAWS):
                made = make(form, generator, letters=letters)
                text = write(form, made.value, where)
                ((content, _),) = redactor.redact([(FILES[where], text.encode())])
                assert len(content) == len(text.encode()) and content.count(b"\n") == text.count("\n")
                assert content.startswith(b"first: 1\n\n") and content.endswith(b"\n\nlast: 2\n")
                if remains(made, content.decode()):
                    left[form.name] += 1
    assert not [name for name, times in left.items() if times > 1]
    assert left.total() <= 2


@pytest.mark.parametrize(
    "text",
    [
        'dsn = "postgresql://{user}:{password}@{host}/app"',
        'dsn = "postgresql://admin:${DB_PASSWORD}@db.acme.io/app"',
        'dsn = "postgresql://admin:<password>@db.acme.io/app"',
        'dsn = "postgresql://admin:password@db.acme.io/app"',
        'dsn = "postgresql://admin:s3cr3t@db.acme.io/app"',
        'dsn = "postgresql://admin:xxxxxxxxxxxx@db.acme.io/app"',
        'dsn = "postgresql://admin:YourStrongPassword@db.acme.io/app"',
        'dsn = "postgresql://winappdbg:winappdbg@localhost/app"',
        'dsn = "mysql+pymysql://root:test1234@127.0.0.1/app"',
        'dsn = "https://user:Kq9XbLpWr7kMvNd2@api.example.com/v1"',
        'dsn = "imaps://user:p4ssw0rd;updated@host/"',
        'dsn = "ecto://eric:pass*%23word@host:12345/mydb"',
        'db = "Server=db.acme.io;User Id=app;Password=%s;Database=app"',
        'db = "Server=db.acme.io;User Id=app;Password=mypassword;Database=app"',
        "connect(host=settings.host1, port=5432, password=load_password2(settings))",
        "a = 1; password = request2.form_password",
        'url = "https://api.acme.io/items?page_token=next_page_of_results"',
        'url = "http://www.example.com/path?access_token=h480djs93hd8"',
        'headers = {"Authorization": "Bearer YOUR_ACCESS_TOKEN_GOES_HERE"}',
        'token = "hf_YourTokenGoesHereFromYourSettingsPg"',
        'token = "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"',
        "if text.startswith('-----BEGIN RSA PRIVATE KEY-----'):\n    return parse_private_key(text, password)",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA...\n-----END RSA PRIVATE KEY-----",
        "See PuTTY-User-Key-File-2 and what follows Private-Lines: 14 in its documentation for more information",
    ],
)
def test_placeholders_names_and_examples_are_no_secrets(text: str) -> None:
    assert find_secrets("app.py", text.encode()) == []


def test_a_key_without_end_takes_nothing_that_follows_it() -> None:
    generator = random.Random("keys")
    form = next(form for form in FORMATS if form.name == "RSA key without END")
    keys = [make(form, generator).value for _ in range(2)]
    text = f'{keys[0]}\n\ndef connect(host):\n    return host\n\nKEY = """{keys[1]}"""\nend\n'
    spans = find_secrets("app.py", text.encode())
    assert [text[start:end] for start, end, _ in spans] == keys


def test_a_comment_beside_a_key_without_end_keeps_that_key_alone() -> None:
    generator = random.Random("allowed")
    form = next(form for form in FORMATS if form.name == "RSA key without END")
    keys = [make(form, generator).value for _ in range(2)]
    text = f"# {ALLOWED}\n{keys[0]}\n\n\nx = 1\n\n\n{keys[1]}\n"
    assert [text[start:end] for start, end, _ in find_secrets("app.py", text.encode())] == [keys[1]]


def test_random_letters_are_told_from_words() -> None:
    generator = random.Random("letters")
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for letters, size, most in ((alphabet, 34, 5), (alphabet, 16, 20), (alphabet[:26], 16, 30)):
        drawn = ["".join(generator.choices(letters, k=size)) for _ in range(1000)]
        assert sum(map(is_wordlike, drawn)) <= most
    words = "your token here,access key of the service,EllipticCurvePrivateKeyWithSerialization,MY_SECRET_PASSWORD"
    assert all(is_wordlike(word) for word in words.split(","))


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "PuTTY-User-Key-File-2: ",
        "://a:bbbbbbb",
        "?a_token=1;Password=",
        "host=a port=b ",
        "A1b2C3d4" * 4,
    ],
)
def test_the_time_of_a_scan_grows_with_the_file_alone(unit: str) -> None:
    """A generous bound: 2 MB of what rules begin with end at all, and within the time of a test."""
    assert len(find_secrets("app.py", (unit * (2_000_000 // len(unit))).encode())) < 200_000
