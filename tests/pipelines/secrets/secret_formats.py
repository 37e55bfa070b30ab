"""Formats of secrets, of which a seeded generator makes values that never opened anything; no value is written down."""

from __future__ import annotations

import random
import re
import string
from typing import NamedTuple

_CLASSES = {
    "A": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "L": string.ascii_letters,
    "l": string.ascii_lowercase,
    "x": string.digits + "abcdef",
    "d": string.digits,
    "b": string.ascii_letters + string.digits + "-_",
    "B": string.ascii_letters + string.digits + "+/",
    "t": string.ascii_uppercase + "234567",
    "p": string.ascii_letters + string.digits + "!._~-",
    "e": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
"""Letters of a template: which characters they stand for."""
_PART = re.compile(r"\{([A-Za-z])(\d+)\}")
_MIXED = frozenset("AaUbBp")
"""Classes that a value of letters alone is of, too."""

CODE, COMMENT, YAML, URL = "code", "comment", "yaml", "url"
SURROUNDINGS = (CODE, COMMENT, YAML, URL)
EVERYWHERE = frozenset(SURROUNDINGS)
NO_URL = EVERYWHERE - {URL}
"""For what has spaces, semicolons, slashes or line breaks, and would be written in percent signs in a URL."""


class Made(NamedTuple):
    """A value of a format."""

    value: str
    drawn: tuple[str, ...]
    """What was drawn for it."""


class Format(NamedTuple):
    """A kind of secret, and where it is tried."""

    name: str
    key: str
    """Name of the variable, setting or parameter that it is the value of."""
    template: str
    """Text, with ``{class count}`` for what is drawn: only that has to vanish."""
    where: frozenset[str] = EVERYWHERE
    bare: bool = False
    """Is known by itself: in a comment it stands in brackets, in a URL it is the value of a parameter named ``q``."""
    address: str = "https://api.acme.io/v1/items?{key}={value}&page=2"
    """The URL it is a part of."""


def keyed(name: str, key: str, template: str, where: frozenset[str] = EVERYWHERE) -> Format:
    return Format(name, key, template, where)


def bare(name: str, template: str, where: frozenset[str] = EVERYWHERE) -> Format:
    return Format(name, "q", template, where, bare=True)


PEM = "-----BEGIN {kind}PRIVATE KEY-----\n{{B64}}\n{{B64}}\n{{B64}}\n{{B52}}=="
ENDED = PEM + "\n-----END {kind}PRIVATE KEY-----"
BODY = "{B64}\n{B64}\n{B40}"
PUTTY = (
    "PuTTY-User-Key-File-VERSION: ssh-rsa\nEncryption: none\nComment: rsa-key\nPublic-Lines: 1\n"
    f"AAAAB3NzaC1yc2EAAAADAQABAAAB\nPrivate-Lines: 3\n{BODY}\nPrivate-MAC: 0123456789abcdef"
)
UUID = "{x8}-{x4}-{x4}-{x4}-{x12}"

FORMATS = (
    # Source hosts and package registries
    bare("GitHub personal token", "ghp_{A36}"),
    bare("GitHub OAuth token", "gho_{A36}"),
    bare("GitHub app token", "ghs_{A36}"),
    bare("GitHub refresh token", "ghr_{A36}"),
    bare("GitHub fine-grained token", "github_pat_{A22}_{A59}"),
    bare("GitLab personal token", "glpat-{b20}"),
    bare("GitLab deploy token", "gldt-{b20}"),
    bare("GitLab runner token", "glrt-{b20}"),
    bare("GitLab trigger token", "glptt-{x40}"),
    bare("Bitbucket Data Center token", "BBDC-{A44}"),
    bare("npm token", "npm_{A36}"),
    bare("PyPI token", "pypi-AgEIcHlwaS5vcmc{b90}"),
    bare("RubyGems key", "rubygems_{x48}"),
    bare("Clojars token", "CLOJARS_{a60}"),
    keyed("crates.io token", "CRATES_IO_TOKEN", "cio{A32}"),
    bare("Docker Hub token", "dckr_pat_{b27}"),
    bare("NuGet key", "oy2{a43}"),
    bare("Artifactory key", "AKCp{A69}"),
    # Clouds
    bare("AWS access key id", "AKIA{t16}"),
    keyed("AWS secret access key", "aws_secret_access_key", "{A40}"),
    keyed("AWS session token", "AWS_SESSION_TOKEN", "IQoJb3JpZ2luX2VjE{A300}"),
    keyed("AWS session token in an answer", "SessionToken", "FwoGZXIvYXdzE{A260}"),
    keyed("AWS session token of a signed address", "X-Amz-Security-Token", "IQoJb3JpZ2luX2VjE{A280}"),
    bare("AWS Bedrock key", "ABSK{A120}="),
    bare("Google API key", "AIza{b35}"),
    bare("Google OAuth client secret", "GOCSPX-{b28}"),
    bare("Google OAuth access token", "ya29.{b120}"),
    bare("Google OAuth refresh token", "1//0{A2}{b60}"),
    keyed("Azure storage key", "AccountKey", "{A86}=="),
    keyed(
        "Azure storage connection string",
        "AZURE_STORAGE",
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={A86}==;EndpointSuffix=core.windows.net",
        NO_URL,
    ),
    bare("Azure AD client secret", "{A3}8Q~{b31}"),
    Format("Azure shared access signature", "sas", "sv=2024-11-04&se=2031-01-01&sp=r&sig={A43}%3D", address="https://acme.blob.core.windows.net/c/f?{value}"),
    keyed(
        "Azure Service Bus connection string",
        "SERVICE_BUS",
        "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={A43}=",
        NO_URL,
    ),
    bare("DigitalOcean token", "dop_v1_{x64}"),
    keyed("Alibaba secret", "alibaba_access_key_secret", "{A30}"),
    keyed("Cloudflare token", "cloudflare_api_token", "{b40}"),
    bare("Cloudflare origin CA key", "v1.0-{x24}-{x146}"),
    keyed("Heroku key", "heroku_api_key", UUID),
    bare("Fly.io token", "FlyV1 fm2_{A140}", NO_URL),
    bare("Databricks token", "dapi{x32}"),
    bare("PlanetScale token", "pscale_tkn_{A43}"),
    bare("PlanetScale password", "pscale_pw_{A43}"),
    bare("Supabase token", "sbp_{x40}"),
    bare("Supabase secret key", "sb_secret_{b31}"),
    bare("Pulumi token", "pul-{x40}"),
    keyed("Terraform Cloud token", "token", "{A14}.atlasv1.{A67}"),
    bare("HashiCorp Vault token", "hvs.{b95}"),
    bare("Doppler token", "dp.pt.{A43}"),
    bare("Tailscale key", "tskey-auth-{A12}CNTRL-{A32}"),
    keyed("Netlify token", "netlify_auth_token", "{b43}"),
    bare("Vercel token", "vcp_{A56}"),
    # Models
    bare("Hugging Face token", "hf_{L34}"),
    bare("Hugging Face organization token", "api_org_{L34}"),
    bare("OpenAI project key", "sk-proj-{A74}T3BlbkFJ{A74}"),
    bare("OpenAI key", "sk-{A20}T3BlbkFJ{A20}"),
    bare("Anthropic key", "sk-ant-api03-{b93}AA"),
    bare("Groq key", "gsk_{A52}"),
    bare("xAI key", "xai-{A80}"),
    bare("Replicate token", "r8_{A37}"),
    bare("NVIDIA key", "nvapi-{b64}"),
    bare("Perplexity key", "pplx-{A48}"),
    bare("OpenRouter key", "sk-or-v1-{x64}"),
    keyed("Mistral key", "MISTRAL_API_KEY", "{A32}"),
    keyed("Cohere key", "CO_API_KEY", "{A40}"),
    keyed("Weights & Biases key", "WANDB_API_KEY", "{x40}"),
    bare("Pinecone key", "pcsk_{A6}_{A63}"),
    # Messages and mail
    bare("Slack bot token", "xoxb-{d12}-{d13}-{A24}"),
    bare("Slack user token", "xoxp-{d12}-{d12}-{d13}-{x32}"),
    bare("Slack app token", "xapp-1-A{U10}-{d13}-{x64}"),
    bare("Slack webhook", "https://hooks.slack.com/services/T{U10}/B{U10}/{A24}"),
    bare("Discord bot token", "M{A25}.G{b5}.{b38}"),
    bare("Discord webhook", "https://discord.com/api/webhooks/123456789012345678/{b68}"),
    keyed("Discord client secret", "DISCORD_CLIENT_SECRET", "{b32}"),
    bare("Telegram bot token", "{d10}:AA{b33}"),
    bare("Twilio key", "SK{x32}"),
    keyed("Twilio auth token", "TWILIO_AUTH_TOKEN", "{x32}"),
    keyed("Twilio key secret", "TWILIO_API_SECRET", "{A32}"),
    bare("SendGrid key", "SG.{b22}.{b43}"),
    keyed("Mailgun key", "mailgun_key", "key-{x32}"),
    keyed("Mailchimp key", "mailchimp_key", "{x32}-us14"),
    bare("Brevo key", "xkeysib-{x64}-{A16}"),
    bare(
        "Teams webhook",
        f"https://acme.webhook.office.com/webhookb2/{UUID}@{UUID}/IncomingWebhook/{{x32}}/{UUID}",
        EVERYWHERE,
    ),
    # Money
    bare("Stripe secret key", "sk_live_{A24}"),
    bare("Stripe restricted key", "rk_live_{A24}"),
    bare("Stripe webhook secret", "whsec_{A32}"),
    bare("Square token", "sq0atp-{b22}"),
    bare("Square client secret", "sq0csp-{b43}"),
    bare("Shopify token", "shpat_{x32}"),
    bare("Razorpay key", "rzp_live_{A14}"),
    keyed("Razorpay secret", "razorpay_key_secret", "{A24}"),
    keyed("Plaid token", "plaid_token", f"access-production-{UUID}"),
    bare("Duffel token", "duffel_live_{b43}"),
    # Watching and working
    keyed("Datadog key", "DD_API_KEY", "{x32}"),
    keyed("Datadog key, named in full", "DATADOG_API_KEY", "{x32}"),
    keyed("Datadog application key", "DD_APP_KEY", "{x40}"),
    bare("Datadog application key of today", "ddapp_{A34}"),
    bare("Grafana service account token", "glsa_{A32}_{x8}"),
    bare("Grafana Cloud token", "glc_{A80}="),
    keyed("New Relic key", "new_relic_key", "NRAK-{U27}"),
    bare("Sentry user token", "sntryu_{x64}"),
    keyed("Snyk token", "snyk_token", UUID),
    keyed("SonarQube token", "sonar_token", "squ_{x40}"),
    bare("Dynatrace token", "dt0c01.{U24}.{U64}"),
    bare("PostHog key", "phx_{A43}"),
    bare("Linear key", "lin_api_{A40}"),
    bare("Notion token", "ntn_{d11}{A35}"),
    bare("Notion token of old", "secret_{A43}"),
    bare("Figma token", "figd_{b40}"),
    bare("Postman key", "PMAK-{x24}-{x34}"),
    bare("Airtable token", "pat{A14}.{x64}"),
    bare("Atlassian token", "ATATT3{A180}={x8}"),
    bare("CircleCI token", "CCIPAT_{A22}_{x40}"),
    bare("Buildkite token", "bkua_{x40}"),
    bare("ReadMe key", "rdme_{a70}"),
    bare("Mapbox token", "sk.eyJ1I{A60}.{b22}"),
    keyed("Algolia admin key", "ALGOLIA_ADMIN_KEY", "{x32}"),
    bare("Sourcegraph token", "sgp_{x16}_{x40}"),
    bare("Docker swarm token", "SWMTKN-1-{a50}-{a25}"),
    bare("1Password secret key", "A3-{U6}-{U11}-{U5}-{U5}-{U5}"),
    bare("age key", "AGE-SECRET-KEY-1{e58}"),
    # Tokens of many services
    bare("JSON web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx{A60}.{b43}"),
    keyed("bearer header", "Authorization", "Bearer {A40}", frozenset({CODE, COMMENT, YAML})),
    # Passwords in addresses: they are URLs, and stand alone
    *(
        bare(f"password of {scheme}", f"{scheme}://admin:{{p16}}@db.acme.io:5432/app")
        for scheme in (
            "postgresql", "postgresql+psycopg2", "mysql+pymysql", "mssql+pyodbc", "mongodb+srv", "redis", "rediss",
            "amqp", "amqps", "clickhouse", "cassandra", "neo4j+s", "bolt", "nats", "mqtt", "kafka", "ldap", "smtp",
            "ftp", "sftp", "https", "socks5", "imaps", "couchdb", "elasticsearch", "sqlserver", "oracle", "snowflake",
        )
    ),
    bare("password without a user", "redis://:{p16}@cache.acme.io:6379/0"),
    bare("short password", "postgres://app:{p9}@db.acme.io/app"),
    # Connection strings
    keyed("JDBC of PostgreSQL", "url", "jdbc:postgresql://db.acme.io:5432/app?user=app&password={p16}"),
    keyed("JDBC of MySQL", "url", "jdbc:mysql://app:{p16}@db.acme.io:3306/app"),
    keyed("JDBC of SQL Server", "url", "jdbc:sqlserver://db.acme.io:1433;user=app;password={p16};", NO_URL),
    keyed("JDBC of Oracle", "url", "jdbc:oracle:thin:app/{A16}@db.acme.io:1521:app"),
    keyed("ADO.NET of SQL Server", "db", "Server=tcp:db.acme.io,1433;Database=app;User Id=app;Password={p16};", NO_URL),
    keyed("ADO.NET with short names", "db", "Data Source=db.acme.io;UID=app;PWD={p16};Encrypt=yes", NO_URL),
    keyed("password before the server", "db", "Password={p16};User Id=app;Server=db.acme.io", NO_URL),
    keyed("ODBC", "db", "Driver={ODBC Driver 18 for SQL Server};Server=db.acme.io;Uid=app;Pwd={p16};", NO_URL),
    keyed("Npgsql", "db", "Host=db.acme.io;Username=app;Password={p16};Database=app", NO_URL),
    keyed("libpq", "db", "host=db.acme.io port=5432 user=app password={p16} dbname=app", NO_URL),
    keyed("password parameter", "password", "{p20}", frozenset({URL})),
    keyed("token parameter", "access_token", "{A32}", frozenset({URL})),
    # Keys
    *(
        bare(f"{kind or 'PKCS8 '}key {state}", template.format(kind=kind), NO_URL)
        for kind in ("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "")
        for state, template in (("in full", ENDED), ("without END", PEM))
    ),
    bare(
        "PGP key without END",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{BODY}\n=Ab1c",
        NO_URL,
    ),
    bare(
        "key with headers, without END",
        f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,{{x32}}\n\n{BODY}",
        NO_URL,
    ),
    bare("PuTTY key 2", PUTTY.replace("VERSION", "2"), NO_URL),
    bare("PuTTY key 3", PUTTY.replace("VERSION", "3"), NO_URL),
)  # fmt: skip


def has_letters_alone(form: Format) -> bool:
    """Return whether a value of the format may have no digit where another has some."""
    return any(kind in _MIXED and int(count) >= 8 for kind, count in _PART.findall(form.template))


def make(form: Format, generator: random.Random, *, letters: bool = False) -> Made:
    """Draw a value. letters: of letters alone, where the format allows it."""
    drawn: list[str] = []

    def draw(part: re.Match[str]) -> str:
        characters = _CLASSES[part[1]]
        if letters and part[1] in _MIXED:
            characters = "".join(one for one in characters if one.isalpha())
        drawn.append("".join(generator.choices(characters, k=int(part[2]))))
        return drawn[-1]

    value = _PART.sub(draw, form.template)
    return Made(value, tuple(drawn))


def write(form: Format, value: str, surrounding: str) -> str:
    """A few lines of a file with the value in them."""
    stands_alone = "://" in form.template or form.template.startswith("jdbc:")
    lines = value.split("\n")
    match surrounding:
        case "code":
            text = form.key.replace("-", "_") + ' = "' + "\\n".join(lines) + '"'
        case "comment" if len(lines) > 1:
            text = "\n".join(f"# {line}" for line in lines)
        case "comment":
            text = f"# Ask before ({value}) is changed, please." if form.bare else f"# {form.key}: {value}"
        case "yaml":
            text = f"{form.key}: " + ("|\n  " + "\n  ".join(lines) if len(lines) > 1 else value)
        case _:
            text = value if stands_alone else form.address.format(key=form.key, value=value)
            text = f"See {text} for it."
    return f"first: 1\n\n{text}\n\nlast: 2\n"


def remains(made: Made, text: str) -> list[str]:
    """Eight characters in a row, or a whole short part, of what was drawn and is in the text still."""
    return [
        piece
        for part in made.drawn
        if len(part) >= 5
        for piece in (part[at : at + 8] for at in range(max(1, len(part) - 7)))
        if piece in text
    ]
