"""The settings: one frozen, typed model, one loader, one file (``dagster_project.toml``).

Precedence, lowest first: the defaults below, the file, environment variables ``CODEQUARRY__SECTION__KEY``.
Unknown sections and keys are refused with the file, the key and the nearest valid name. Every field carries its own
documentation; ``codequarry settings`` prints this model.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from codequarry.schemas.automation_settings import AutomationSettings, NotifySettings, ScheduleSettings
from codequarry.schemas.drift_settings import DriftSettings
from codequarry.schemas.embedding_settings import EmbeddingSettings
from codequarry.schemas.errors import SettingsError
from codequarry.schemas.git_urls import check_ref, parse_git_url, without_credentials
from codequarry.schemas.index_settings import IndexesSettings
from codequarry.schemas.model_server_settings import ModelServerSettings
from codequarry.schemas.retrieval_settings import RetrievalSettings
from codequarry.schemas.secret_settings import SecretsSettings
from codequarry.schemas.service_settings import AuthSettings, TelemetrySettings
from codequarry.schemas.splade_settings import SpladeSettings
from codequarry.schemas.warp_settings import WarpSettings

SETTINGS_FILE = "dagster_project.toml"
ENV_PREFIX = "CODEQUARRY__"
_SECRET = {"notify.webhook", "notify.smtp_password"}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PathsSettings(_Section):
    """Where the pipeline keeps what can be rebuilt. Relative paths start at the settings file's folder."""

    store: Path = Field(
        default=Path(".codequarry/store"), description="Content-addressed store: vectors and exported encoders."
    )
    work: Path = Field(default=Path(".codequarry/work"), description="Stage outputs of each repository between runs.")


class RepositorySettings(_Section):
    """One repository to index: a folder here, or a URL that git fetches."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    path: Path | None = Field(default=None, description="A git work tree or a plain directory.")
    url: str = Field(
        default="",
        description="A git repository elsewhere, instead of `path`: `https://`, `ssh://`, `git://`, `file:///` or "
        "`user@host:path`. Credentials in it are used, never stored or shown.",
        repr=False,
    )
    ref: str = Field(
        default="",
        description="Branch, tag or commit to read; HEAD of the URL, or the work tree of the path, when empty.",
    )
    name: str = Field(
        default="",
        description="Name used in ids, URLs and filters; that of the folder or of the URL's last part when empty.",
        pattern=r"^$|^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    )
    scip: tuple[Path, ...] = Field(
        default=(),
        description="SCIP indexes made elsewhere, protobuf or JSON; no indexer runs for the languages they cover.",
    )

    @field_validator("url")
    @classmethod
    def _known_url(cls, value: str) -> str:
        if value:
            parse_git_url(value)
        return value

    @field_validator("ref")
    @classmethod
    def _known_ref(cls, value: str) -> str:
        return check_ref(value) if value else value

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (not self.url):
            raise ValueError("expected either path or url")
        return self

    @field_serializer("url")
    def _public(self, value: str) -> str:
        return parse_git_url(value).public if value else value

    @property
    def place(self) -> str:
        """Path or URL as people may see it, with the ref behind it when one is given."""
        where = parse_git_url(self.url).public if self.url else str(self.path)
        return f"{where}#{self.ref}" if self.ref else where


class SourcesSettings(_Section):
    """What is indexed, and which of its files."""

    repositories: tuple[RepositorySettings, ...] = Field(default=(), description="The repositories the bundle holds.")
    max_file_bytes: int = Field(
        default=1_000_000, ge=1, description="Larger files are skipped with reason `too_large`."
    )
    exclude: tuple[str, ...] = Field(default=(), description="Extra gitignore-style patterns to leave out.")


class ChunkingSettings(_Section):
    """Size budgets of the structure-aware chunker, in non-whitespace bytes."""

    max_chars: int = Field(default=1600, ge=100, le=20_000, description="A definition up to this size stays whole.")
    merge_chars: int = Field(
        default=600, ge=1, le=20_000, description="Neighbours merge while their sum is at most this."
    )

    @model_validator(mode="after")
    def _merged_fits(self) -> Self:
        if self.merge_chars > self.max_chars:
            raise ValueError(f"merge_chars {self.merge_chars} must not exceed max_chars {self.max_chars}")
        return self


class ScipSettings(_Section):
    """Precise definitions and references by SCIP indexers, where they are installed."""

    enabled: bool = Field(default=True, description="Run scip-python and scip-typescript when they are found.")
    timeout_s: float = Field(default=900.0, gt=0, description="Longest run of one indexer over one repository.")
    memory_mb: int = Field(default=4096, ge=256, description="Memory an indexer may take, in MiB.")


class RankingSettings(_Section):
    """How the versions to be built are ranked."""

    profile: Path | None = Field(
        default=None,
        description="A ranking profile of your own, by codequarry tune ranking; the built-in one when left out.",
    )


class ChecksSettings(_Section):
    """What a staged version must satisfy before it is published."""

    min_chunks: int = Field(default=1, ge=0, description="Fewer chunks than this stop the publish.")
    min_indexed_share: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Smallest share of census files that must be indexed."
    )
    max_bundle_mb: int = Field(default=0, ge=0, description="A larger version stops the publish; 0 = any size.")
    max_secrets: int | None = Field(
        default=None,
        ge=0,
        description="More secrets in the files stop the publish, though they are replaced by asterisks.",
    )


class BundleSettings(_Section):
    """Where versions are published."""

    root: Path = Field(default=Path(".codequarry/bundles"), description="Bundle root: CURRENT and versions/.")
    keep_versions: int = Field(default=3, ge=2, description="Versions kept after a publish, the current one included.")
    keep_days: float = Field(
        default=30.0,
        ge=0,
        description="Older versions go even when fewer are kept, the current one and one before it apart; 0 = never.",
    )


class ServingSettings(ModelServerSettings):
    """The read-only service."""

    host: str = Field(default="127.0.0.1", description="Address the HTTP service binds.")
    port: int = Field(default=8321, ge=0, le=65_535, description="Port of the HTTP service; 0 = any free one.")
    allowed_hosts: tuple[str, ...] = Field(default=(), description="Host headers accepted besides the bound address.")
    allowed_origins: tuple[str, ...] = Field(
        default=(), description="Browser origins accepted besides the service's own."
    )
    max_concurrency: int = Field(default=8, ge=1, le=256, description="Tool calls that run at once; more get BUSY.")
    search_timeout_s: float = Field(default=20.0, gt=0, description="Deadline of one search or symbol look-up.")
    fetch_timeout_s: float = Field(default=30.0, gt=0, description="Deadline of one fetch.")
    max_connections: int = Field(
        default=256, ge=8, le=65_536, description="Open HTTP connections; beyond it the longest silent one is closed."
    )
    header_timeout_s: float = Field(
        default=10.0, gt=0, le=3600, description="How long the headers of an HTTP request may take to arrive."
    )
    body_timeout_s: float = Field(
        default=20.0, gt=0, le=3600, description="How long the body of an HTTP request may take to arrive."
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        description="Addresses of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto headers are believed.",
    )
    follow_interval_s: float = Field(
        default=0.5, gt=0, le=3600, description="How often CURRENT is read; a new version is served soon after."
    )
    candidates: int = Field(default=200, ge=10, le=2_000, description="Candidates each channel gives to the fusion.")
    fusion: Literal["score", "weighted_rrf"] = Field(
        default="score",
        description="How channels are put on one scale: by their scores, or by their ranks (reciprocal rank fusion).",
    )
    rrf_k: float = Field(default=60.0, gt=0, description="k of weighted reciprocal rank fusion.")
    weight_faiss: float = Field(
        default=1.0, ge=0, description="Multiplies the profile's weight of the dense channel; 0 leaves it out."
    )
    weight_faiss2: float = Field(
        default=1.0,
        ge=0,
        description="Multiplies the profile's weight of the second dense channel, in bundles of tier standard; "
        "0 leaves it out.",
    )
    weight_bm25: float = Field(
        default=1.0, ge=0, description="Multiplies the profile's weight of the lexical channel; 0 leaves it out."
    )
    weight_symbol: float = Field(
        default=1.0, ge=0, description="Multiplies the profile's weight of definitions' names; 0 leaves them out."
    )
    weight_warp: float = Field(
        default=1.0, ge=0, description="Multiplies the profile's weight of late interaction; 0 leaves it out."
    )
    weight_splade: float = Field(
        default=0.0,
        ge=0,
        description="Multiplies the prior weight of learned sparse retrieval, 0.9 of the dense channel's; 0, as no "
        "profile was fitted with it, leaves it out.",
    )
    warp_threads: int = Field(default=1, ge=1, le=64, description="Threads of one search by late interaction.")
    nprobe: int = Field(
        default=0, ge=0, description="Lists of an IVF index that a search reads; 0 = as the version's tuning says."
    )
    ef_search: int = Field(
        default=0, ge=0, description="Width of the search in an HNSW index; 0 = as the version's tuning says."
    )
    faiss_gpu: bool = Field(
        default=False, description="Search a copy of the dense index on the GPU, where FAISS has one; else on the CPU."
    )


class Settings(_Section):
    """Every setting of codequarry."""

    paths: PathsSettings = PathsSettings()
    sources: SourcesSettings = SourcesSettings()
    secrets: SecretsSettings = SecretsSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    scip: ScipSettings = ScipSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    indexes: IndexesSettings = IndexesSettings()
    ranking: RankingSettings = RankingSettings()
    warp: WarpSettings = WarpSettings()
    splade: SpladeSettings = SpladeSettings()
    checks: ChecksSettings = ChecksSettings()
    drift: DriftSettings = DriftSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    automation: AutomationSettings = AutomationSettings()
    notify: NotifySettings = NotifySettings()
    bundle: BundleSettings = BundleSettings()
    serving: ServingSettings = ServingSettings()
    auth: AuthSettings = AuthSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @property
    def late_interaction(self) -> bool:
        """Whether versions have an index of late interaction."""
        return self.warp.enabled or self.indexes.tier == "full"

    @property
    def learned_sparse(self) -> bool:
        """Whether versions have a learned sparse index."""
        return self.splade.enabled or (self.indexes.tier == "full" and bool(self.splade.model))

    @property
    def asking(self) -> ServingSettings:
        """Of the service, for questions asked where versions are built and measured.

        A model server that makes the vectors of chunks reads these questions too when no other is named for queries.
        """
        made_by = self.embedding.made_by
        if made_by is None or self.serving.query_endpoint:
            return self.serving
        server = {
            "query_endpoint": made_by.url,
            "query_endpoint_key": made_by.key_variable,
            "query_endpoint_timeout_s": made_by.timeout_s,
        }
        return self.serving.model_copy(update=server)

    def index_hash(self) -> str:
        """sha256 hex of the settings that decide what a bundle's indexes contain; paths and serving do not.

        Which encoders the folders hold, their fingerprints tell.
        """
        deciding = self.model_dump(mode="json", include={"chunking", "scip", "indexes"})
        deciding["embedding"] = self.embedding.model_dump(mode="json", include={"model", "adapt", "max_tokens"})
        if self.embedding.folder is not None:
            deciding["embedding"]["folder"] = True  # which one is there, its fingerprint tells
        if Path(self.embedding.model).is_absolute():
            deciding["embedding"]["model"] = Path(self.embedding.model).name
        if self.late_interaction:
            deciding["warp"] = self.warp.model_dump(mode="json", exclude={"enabled"})
        if self.learned_sparse:
            deciding["splade"] = self.splade.model_dump(mode="json", include={"terms", "max_tokens"})
        deciding["sources"] = self.sources.model_dump(mode="json", include={"max_file_bytes", "exclude"})
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


def load_settings(
    path: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    bundle_root: Path | None = None,
    look_here: bool = True,
) -> Settings:
    """Read the settings.

    path: the file; None takes ``dagster_project.toml`` of the current folder when there is one.
    env: the environment overrides are read from (default: the process's).
    bundle_root: wins over ``[bundle] root``; relative to the current folder.
    look_here: without it no file is taken from the current folder, which may be a stranger's.

    Relative paths in the result are resolved against the file's folder (the current folder without a file).

    Raises SettingsError: the file is missing or is no TOML, or a key or value is not valid.
    """
    file = path if path is not None else Path(SETTINGS_FILE)
    data: dict[str, Any] = {}
    if file.is_file() and (look_here or path is not None):
        data = _read_toml(file)
    elif path is not None:
        raise SettingsError(
            f"settings file not found: {path}", suggestion="give an existing file with --settings, or leave it out"
        )
    _refuse_unknown(data, f"{file}")
    for section, key, value, variable in _overrides(os.environ if env is None else env):
        data.setdefault(section, {})[key] = value
        _refuse_unknown({section: {key: value}}, variable)
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise _explained(error, file) from None
    settings = _resolved(settings, file.resolve().parent)
    if bundle_root is None:
        return settings
    bundle = settings.bundle.model_copy(update={"root": _absolute(Path.cwd(), bundle_root)})
    return settings.model_copy(update={"bundle": bundle})


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"{file}: cannot be read as TOML: {error}", suggestion="fix the line named above"
        ) from error


def _refuse_unknown(data: Mapping[str, Any], where: str) -> None:
    for section, values in data.items():
        field = Settings.model_fields.get(section)
        if field is None:
            raise _unknown(where, section, list(Settings.model_fields))
        model = field.annotation
        assert isinstance(model, type) and issubclass(model, BaseModel)
        if not isinstance(values, Mapping):
            raise SettingsError(
                f"{where}: [{section}] is {type(values).__name__}, expected a table",
                suggestion=f"write [{section}] on its own line, then key = value lines",
            )
        for key in cast("Mapping[str, Any]", values):
            if key not in model.model_fields:
                raise _unknown(where, f"{section}.{key}", [f"{section}.{name}" for name in model.model_fields])


def _unknown(where: str, key: str, valid: list[str]) -> SettingsError:
    near = difflib.get_close_matches(key, valid, n=1, cutoff=0.0)[0]
    return SettingsError(f"{where}: unknown setting {key!r}", suggestion=f"did you mean {near!r}?")


def _overrides(env: Mapping[str, str]) -> list[tuple[str, str, Any, str]]:
    found: list[tuple[str, str, Any, str]] = []
    for variable in sorted(env):
        if not variable.startswith(ENV_PREFIX):
            continue
        section, _, key = variable.removeprefix(ENV_PREFIX).lower().partition("__")
        _refuse_unknown({section: {key: None}}, variable)
        found.append((section, key, _parsed(section, key, env[variable], variable), variable))
    return found


def _parsed(section: str, key: str, text: str, variable: str) -> Any:
    """Tuples are written as JSON lists; everything else is left to the field's own conversion."""
    model = Settings.model_fields[section].annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)
    annotation = model.model_fields[key].annotation
    if get_origin(annotation) is not tuple:
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        inner = getattr(get_args(annotation)[0], "__name__", "value")
        raise SettingsError(
            f"{variable}: not a JSON list: {error}", suggestion=f'write it like ["…"], a list of {inner}'
        ) from error


def _explained(error: ValidationError, file: Path) -> SettingsError:
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        location = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            names = [*RepositorySettings.model_fields]
            near = difflib.get_close_matches(str(problem["loc"][-1]), names, n=1, cutoff=0.0)[0]
            lines.append(f"{location}: unknown setting, did you mean {near!r}?")
        else:
            # What is wrong about a whole section is said without its values: one may be a password.
            found = (
                "" if isinstance(problem["input"], Mapping) or location in _SECRET else f"found {problem['input']!r}; "
            )
            lines.append(without_credentials(f"{location}: {found}{problem['msg']}"))
    return SettingsError(
        f"{file}: " + "; ".join(lines), suggestion="run `codequarry settings` for every key and default"
    )


def _absolute(base: Path, path: Path) -> Path:
    try:
        return Path(os.path.realpath(base / path.expanduser()))
    except (RuntimeError, ValueError) as error:
        raise SettingsError(f"{str(path)!r} is not a path: {error}", suggestion="write the path in full") from error


def _model_path(embedding: EmbeddingSettings, base: Path) -> str:
    """The model, in full where it is a path."""
    if embedding.by_transformers and embedding.model.startswith((".", "/", "~")):
        return str(_absolute(base, Path(embedding.model)))
    return embedding.model


def _resolved(settings: Settings, base: Path) -> Settings:
    def absolute(path: Path) -> Path:
        return _absolute(base, path)

    return settings.model_copy(
        update={
            "paths": PathsSettings(store=absolute(settings.paths.store), work=absolute(settings.paths.work)),
            "bundle": settings.bundle.model_copy(update={"root": absolute(settings.bundle.root)}),
            "ranking": settings.ranking.model_copy(
                update={"profile": settings.ranking.profile and absolute(settings.ranking.profile)}
            ),
            "auth": settings.auth.model_copy(
                update={"public_key": settings.auth.public_key and absolute(settings.auth.public_key)}
            ),
            "splade": settings.splade.resolved(absolute),
            "telemetry": settings.telemetry.model_copy(update={"folder": absolute(settings.telemetry.folder)}),
            "embedding": settings.embedding.model_copy(
                update={
                    "model": _model_path(settings.embedding, base),
                    "folder": settings.embedding.folder and absolute(settings.embedding.folder),
                    "second": settings.embedding.second and absolute(settings.embedding.second),
                }
            ),
            "sources": settings.sources.model_copy(
                update={
                    "repositories": tuple(
                        repository.model_copy(
                            update={
                                "path": repository.path and absolute(repository.path),
                                "scip": tuple(map(absolute, repository.scip)),
                            }
                        )
                        for repository in settings.sources.repositories
                    )
                }
            ),
        }
    )
