"""Secrets of known formats that never opened anything, put together here so that this file holds none."""

from __future__ import annotations

import base64

_BODY = "A7xQ9kLm2ZpR4tVb8NcY1WdE5sHfJ3uG6oi0"
_BASE64 = (
    "MIIEpAIBAAKCAQEA6RXzrGlw2JS/npLX7KhmK0gLKE23u86o6aMPZ6lFOD5i0btm",
    "DGmlvHwKJ3lJycbCcO6pd/PlTKaYWVDpjlr7Du7lf5X==",
)
GITHUB = "ghp" + "_" + _BODY
AWS = "wJ41rXUtnFEM1" + "/K7MDENG/bPxRf1CYz8aKeY91Q2"
SLACK = "xoxb" + "-2345678901-2345678901234-" + _BODY[:24]
STRIPE = "sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
GOOGLE = "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"
JWT = ".".join(
    (
        "ey" + "JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "ey" + "JzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ",
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    )
)
PASSWORD = "Zx81kQ0pLmW-ü"
KEY_LINES = _BASE64
PRIVATE_KEY = "-----BEGIN RSA " + "PRIVATE KEY-----\n{}\n{}\n-----END RSA ".format(*_BASE64) + "PRIVATE KEY-----"
IN_BASE64 = base64.b64encode(f"token {GITHUB} end".encode()).decode()

LINES = {
    "github-pat": f'token = "{GITHUB}"',
    "aws-secret-access-key": f'aws_secret_access_key = "{AWS}"',
    "slack-bot-token": f"slack: {SLACK}",
    "stripe-access-token": f'key = "{STRIPE}"',
    "gcp-api-key": f'maps = "{GOOGLE}"',
    "jwt": f'bearer = "{JWT}"',
    "generic-credential-uri": f'database = "postgres://app:{PASSWORD}@db.internal/x"',
}
VALUES = (GITHUB, AWS, SLACK, STRIPE, GOOGLE, JWT, PASSWORD, *KEY_LINES, IN_BASE64)
"""What must be found nowhere."""
