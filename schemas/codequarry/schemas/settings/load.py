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
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError

from codequarry.schemas.errors import SettingsError
from codequarry.schemas.git_urls import without_credentials
from codequarry.schemas.settings.automation import AutomationSettings, NotifySettings, ScheduleSettings
from codequarry.schemas.settings.bundle import ArchiveSettings, BundleSettings, StoreSettings, VersionSettings
from codequarry.schemas.settings.compute import ComputeSettings
from codequarry.schemas.settings.device_setting import device_kind
from codequarry.schemas.settings.embedding import EmbeddingSettings, EncoderSettings
from codequarry.schemas.settings.file import SETTINGS_FILE as SETTINGS_FILE
from codequarry.schemas.settings.file import Look, find_settings, read_settings_file
from codequarry.schemas.settings.fleet import FleetSettings
from codequarry.schemas.settings.gates import DriftSettings, RetrievalSettings
from codequarry.schemas.settings.indexes import IndexesSettings, SpladeSettings, WarpSettings
from codequarry.schemas.settings.model_servers import ModelServerSettings
from codequarry.schemas.settings.service import (
    AuthSettings,
    ConnectionSettings,
    RouterSettings,
    StageSettings,
    TelemetrySettings,
)
from codequarry.schemas.settings.sources import (
    ChunkingSettings,
    LimitsSettings,
    PathsSettings,
    RepositorySettings,
    ScipSettings,
    SecretsSettings,
    SourcesSettings,
)
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach, Request, privileged
from codequarry.schemas.trust.state_folders import require_own_state
from codequarry.schemas.trust.state_home import HOME_FOLDER, state_base

ENV_PREFIX = "CODEQUARRY__"
_SECRET = {"notify.webhook", "notify.smtp_password"}


class RankingSettings(StrictModel):
    """Ranking of the versions to be built."""

    profile: Annotated[Path | None, Reach.PLACE] = Field(
        default=None,
        description="A ranking profile of your own, by codequarry tune ranking; the built-in one when left out.",
    )


class ChecksSettings(StrictModel):
    """Thresholds that a staged version must satisfy before it is published."""

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


class ServingSettings(ConnectionSettings, VersionSettings, StageSettings, ModelServerSettings, RouterSettings):
    """The read-only service."""

    host: Annotated[str, Reach.ACCESS] = Field(default="127.0.0.1", description="Address the HTTP service binds.")
    port: int = Field(default=8321, ge=0, le=65_535, description="Port of the HTTP service; 0 = any free one.")
    page: bool = Field(default=True, description="Answer browsers at the service's address with pages for people.")
    allowed_hosts: Annotated[tuple[str, ...], Reach.ACCESS] = Field(
        default=(), description="Host headers accepted besides the bound address."
    )
    allowed_origins: Annotated[tuple[str, ...], Reach.ACCESS] = Field(
        default=(), description="Browser origins accepted besides the service's own."
    )
    max_concurrency: int = Field(default=8, ge=1, le=256, description="Tool calls that run at once; more get BUSY.")
    fleet_bundles: int = Field(
        default=16,
        ge=0,
        le=20_000,
        description="Bundles of a fleet that one search asks, the most promising ones; `filters.repos` decides where "
        "it is given. 0: all.",
    )
    search_timeout_s: float = Field(default=20.0, gt=0, description="Deadline of one search or symbol look-up.")
    fetch_timeout_s: float = Field(default=30.0, gt=0, description="Deadline of one fetch.")
    trusted_proxies: Annotated[tuple[str, ...], Reach.ACCESS] = Field(
        default=(),
        description="Addresses of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto headers are believed.",
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

    @property
    def weights_by_channel(self) -> dict[str, float]:
        """Multipliers of the profile's weights, in the order in which a search asks the channels.

        The lexical channel is first: it is the cheapest and needs no encoder.
        """
        return {
            "bm25": self.weight_bm25,
            "faiss": self.weight_faiss,
            "faiss2": self.weight_faiss2,
            "symbol": self.weight_symbol,
            "splade": self.weight_splade,
            "warp": self.weight_warp,
        }


class Settings(StrictModel):
    """Every setting of codequarry."""

    paths: PathsSettings = PathsSettings()
    compute: ComputeSettings = ComputeSettings()
    sources: SourcesSettings = SourcesSettings()
    limits: LimitsSettings = LimitsSettings()
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
    archive: ArchiveSettings = ArchiveSettings()
    fleet: FleetSettings = FleetSettings()
    store: StoreSettings = StoreSettings()
    serving: ServingSettings = ServingSettings()
    auth: AuthSettings = AuthSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @property
    def late_interaction(self) -> bool:
        """True when versions have a late-interaction index."""
        return self.warp.enabled or self.indexes.tier == "full"

    @property
    def learned_sparse(self) -> bool:
        """True when versions have a learned sparse index."""
        return self.splade.enabled or (self.indexes.tier == "full" and bool(self.splade.model))

    @property
    def second_encoder(self) -> EncoderSettings | None:
        """The encoder of the second dense index; None when versions have none."""
        return self.embedding.second_encoder if self.indexes.tier != "fast" else None

    @property
    def asking(self) -> ServingSettings:
        """Service settings for questions asked while versions are built and measured.

        A model server that makes the vectors of chunks reads these questions too when no other is named for queries.
        """
        made_by = self.embedding.made_by or (self.second_encoder.made_by if self.second_encoder is not None else None)
        if made_by is None or self.serving.query_endpoint:
            return self.serving
        server = {
            "query_endpoint": made_by.url,
            "query_endpoint_key": made_by.key_variable,
            "query_endpoint_timeout_s": made_by.timeout_s,
        }
        return self.serving.model_copy(update=server)

    def index_hash(self) -> str:
        """Return the sha256 hex of the settings that decide what a bundle's indexes contain; paths and serving do not.

        The fingerprints of encoders tell what the folders of encoders hold.
        """
        deciding = self.model_dump(mode="json", include={"chunking", "scip", "indexes"})
        deciding["embedding"] = self.embedding.model_dump(mode="json", include={"model", "adapt", "max_tokens"})
        if self.embedding.folder is not None:
            deciding["embedding"]["folder"] = True  # which one is there, its fingerprint tells
        if Path(self.embedding.model).is_absolute():
            deciding["embedding"]["model"] = Path(self.embedding.model).name
        if self.embedding.half:
            deciding["embedding"]["half"] = True
        if self.second_encoder is not None and self.embedding.second is not None:
            deciding["second"] = {
                "model": Path(self.second_encoder.model).name,
                "tokens": self.second_encoder.max_tokens,
                **({"half": True} if self.second_encoder.half else {}),
            }
        if self.late_interaction:
            deciding["warp"] = self.warp.model_dump(mode="json", exclude={"enabled", "model", "revision"})
            deciding["warp"]["device"] = device_kind(self.warp.device)
            if self.warp.model:
                deciding["warp"]["model"] = Path(self.warp.model).name
        if self.learned_sparse:
            deciding["splade"] = self.splade.model_dump(mode="json", include={"terms", "max_tokens"})
        deciding["sources"] = self.sources.model_dump(mode="json", include={"max_file_bytes", "exclude"})
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


def load_settings(
    path: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    bundle_root: Path | None = None,
    look: Look = "here",
    named: bool = True,
) -> Settings:
    """Read the settings. Every command gets them here, so that none believes a file that the user does not trust.

    Relative paths in the result are resolved against the file's folder (the current folder without a file). Those below
    ``.codequarry`` are in the user's cache where `state_base` says so.

    Args:
        path: Settings file; None takes ``dagster_project.toml`` of the current folder when there is one.
        env: Environment that overrides are read from (default: the process's).
        bundle_root: Bundle root that wins over ``[bundle] root``; relative to the current folder.
        look: Where a file is looked for without a path; above the current folder only when no bundle root is named.
        named: The user gave the path, which is trust; a path that a program chose counts as a found file.

    Returns:
        The settings, with absolute paths.

    Raises:
        SettingsError: The file is missing or not TOML, or a key or value is not valid.
        UntrustedError: The file asks for what only a trusted one may, or the state folder came with a repository.
    """
    env = os.environ if env is None else env
    rooted = bundle_root is not None or f"{ENV_PREFIX}BUNDLE__ROOT" in env
    place = find_settings(path, "here" if look in ("up", "above") and rooted else look, named=named)
    data = _parsed_toml(place.raw, place.file) if place.raw is not None else {}
    given = _validated(data, place.file, env)
    if bundle_root is not None:
        root = Path(os.path.abspath(_expanded(bundle_root)))
        given = given.model_copy(update={"bundle": given.bundle.model_copy(update={"root": root})})
    writing = look in ("here", "above")
    base = state_base(place.folder, writing=writing)
    settings = _resolved(given, place.folder, base)
    place.refuse_untrusted(Settings, data)
    # Store and work folder are of the commands that build; a question about a bundle that was named reads neither.
    state = [given.bundle.root, *([given.telemetry.folder] if given.telemetry.to_disk else [])]
    state += [given.paths.store, given.paths.work, given.fleet.folder] if writing else []
    require_own_state(_base_of(each, place.folder, base) / _expanded(each) for each in state)
    return settings


def read_requests(file: Path) -> tuple[bytes, list[Request]]:
    """Read a settings file and what it asks for beyond its folder.

    Args:
        file: Settings file.

    Returns:
        Its bytes, and its requests.

    Raises:
        SettingsError: The file cannot be used.
    """
    raw = read_settings_file(file)
    data = _parsed_toml(raw, file)
    _validated(data, file, os.environ)
    return raw, privileged(Settings, data, file.parent)


def _validated(data: dict[str, Any], file: Path, env: Mapping[str, str]) -> Settings:
    """Return the settings of a file and the environment."""
    _refuse_unknown(data, f"{file}")
    merged = {section: dict(values) for section, values in data.items()}
    for section, key, value, variable in _overrides(env):
        merged.setdefault(section, {})[key] = value
        _refuse_unknown({section: {key: value}}, variable)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise _explained(error, file) from None


def _parsed_toml(raw: bytes, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except ValueError as error:  # also of a number with too many digits
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
    """Parse the value of an environment variable.

    Tuples are JSON lists and tables JSON objects; the rest is left to the field's conversion.
    """
    model = Settings.model_fields[section].annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)
    annotation = model.model_fields[key].annotation
    is_list, is_map = get_origin(annotation) is tuple, get_origin(annotation) is dict
    is_table = is_map or EncoderSettings in get_args(annotation)
    if not (is_list or is_table):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        inner = getattr(get_args(annotation)[0], "__name__", "value")
        expected = f'["…"], a list of {inner}' if is_list else '{"model": "minilm"}, with the keys of the table'
        expected = '{"NAME": ["…"]}' if is_map else expected
        raise SettingsError(f"{variable}: not JSON: {error}", suggestion=f"write it like {expected}") from error


def _explained(error: ValidationError, file: Path) -> SettingsError:
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        location = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            names = [*(EncoderSettings if "second" in problem["loc"] else RepositorySettings).model_fields]
            near = difflib.get_close_matches(str(problem["loc"][-1]), names, n=1, cutoff=0.0)[0]
            lines.append(f"{location}: unknown setting, did you mean {near!r}?")
        else:
            # What is wrong about a whole section is said without its values: one may be a password.
            hidden = isinstance(problem["input"], Mapping) or location in _SECRET
            found = "" if hidden else f"found {_describe_value(problem['input'])}; "
            lines.append(without_credentials(f"{location}: {found}{problem['msg']}"))
    return SettingsError(
        f"{file}: " + "; ".join(lines), suggestion="run `codequarry settings` for every key and default"
    )


def _describe_value(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:
        return "a number of thousands of digits"


def _absolute(base: Path, path: Path) -> Path:
    try:
        return Path(os.path.realpath(base / _expanded(path)))
    except ValueError as error:
        raise _no_path(path, error) from error


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise _no_path(path, error) from error


def _no_path(path: Path, error: Exception) -> SettingsError:
    return SettingsError(f"{str(path)!r} is not a path: {error}", suggestion="write the path in full")


def _resolved_encoder(encoder: EncoderSettings, base: Path) -> dict[str, Any]:
    """Return the model, as a full path when it is one, and the full path of the folder."""
    model = encoder.model
    if encoder.by_transformers and model.startswith((".", "/", "~")):
        model = str(_absolute(base, Path(model)))
    return {"model": model, "folder": encoder.folder and _absolute(base, encoder.folder)}


def _base_of(path: Path, folder: Path, state: Path) -> Path:
    """Return where a relative path starts: the folder of the settings, or the one that holds their state."""
    return state if path.parts[:1] == (HOME_FOLDER,) else folder


def _resolved(settings: Settings, base: Path, state: Path) -> Settings:
    second = settings.embedding.second

    def absolute(path: Path) -> Path:
        return _absolute(_base_of(path, base, state), path)

    return settings.model_copy(
        update={
            "paths": PathsSettings(store=absolute(settings.paths.store), work=absolute(settings.paths.work)),
            "bundle": settings.bundle.model_copy(update={"root": absolute(settings.bundle.root)}),
            "fleet": settings.fleet.model_copy(update={"folder": absolute(settings.fleet.folder)}),
            "ranking": settings.ranking.model_copy(
                update={"profile": settings.ranking.profile and absolute(settings.ranking.profile)}
            ),
            "automation": settings.automation.model_copy(
                update={"notebook": settings.automation.notebook and absolute(settings.automation.notebook)}
            ),
            "auth": settings.auth.model_copy(
                update={"public_key": settings.auth.public_key and absolute(settings.auth.public_key)}
            ),
            "splade": settings.splade.resolved(absolute),
            "warp": settings.warp.resolved(absolute),
            "telemetry": settings.telemetry.model_copy(update={"folder": absolute(settings.telemetry.folder)}),
            "embedding": settings.embedding.model_copy(
                update={
                    **_resolved_encoder(settings.embedding, base),
                    "second": second and second.model_copy(update=_resolved_encoder(second, base)),
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
