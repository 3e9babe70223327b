"""Fetch the XSD of a release from the release's own jar."""

from __future__ import annotations

import io
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO

from activemq_fleet.artifacts import _maven
from activemq_fleet.artifacts._cache import Progress, cache_directory, ensure_cached, log_software_fetch_progress
from activemq_fleet.artifacts._damaged_archives import ERRORS_OF_DAMAGED_ARCHIVES, verify_checksum_of_tar_archive
from activemq_fleet.errors import ArtifactError, FleetError, SchemaUnavailableError
from activemq_fleet.releases import Release, releases_with_published_schema
from activemq_fleet.schema import CompiledActivemqXsd

BUNDLE = Path(__file__).resolve().parents[1] / "schemas.zip"
"""The schemas that the wheel contains, ``RELEASE.xsd`` each; a checkout has none."""
_XSD_NAME = "activemq.xsd"
_JAR_NAME = re.compile(r"(?:^|/)activemq-(?:core|spring|all)-(?P<version>\d[^/]*)\.jar$")
_POM_PROPERTIES = re.compile(r"META-INF/maven/org\.apache\.activemq/activemq-(?:core|spring|all)/pom\.properties")
# The largest known files are an activemq-all.jar of 19 MB and an XSD of 0.5 MB. A decompression bomb is far larger.
_JAR_LIMIT, _XSD_LIMIT = 256 << 20, 16 << 20

_download_failures: dict[Path, FleetError] = {}
_reported_substitutes: set[tuple[Release, Release]] = set()


def schema_bytes(release: Release, *, progress: Progress = log_software_fetch_progress) -> bytes:
    """Return the bytes of the XML schema ``activemq.xsd`` of a release.

    It is fetched once, or that of the nearest release of its line. Raises SchemaUnavailableError, which names the
    command to run, when the line has no schema.
    """
    return _nearest_schema_path(release, progress).read_bytes()


def load_schema(release: Release, *, progress: Progress = log_software_fetch_progress) -> CompiledActivemqXsd:
    """Load the XML schema ``activemq.xsd`` of a release, and return it compiled.

    It is kept in memory. It may be that of the nearest release of its line. One line of progress names the other
    release. Raises SchemaUnavailableError when the line has no schema.
    """
    path = _nearest_schema_path(release, progress)
    return _load_compiled_schema(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _load_compiled_schema(path: Path, _modified_ns: int) -> CompiledActivemqXsd:
    return CompiledActivemqXsd(path.read_bytes(), str(path))


def releases_with_cached_schema() -> list[Release]:
    """Return the releases whose XML schema ``activemq.xsd`` is in the download cache."""
    xsd_files = (cache_directory() / "schemas").glob("*.xsd")
    return [Release.of(path.stem) for path in xsd_files if re.fullmatch(r"\d+\.\d+\.\d+", path.stem)]


def packaged_schema_bytes(release: Release, bundle: Path = BUNDLE) -> bytes | None:
    """Return the bytes of a release's XML schema ``activemq.xsd`` from the package that bundles schemas.

    The result is None if no package has it. The package is the wheel.
    """
    try:
        with zipfile.ZipFile(bundle) as archive:
            return archive.read(f"{release.text}.xsd")
    except (FileNotFoundError, KeyError):
        return None


def fetch_schema_to_cache(
    release: Release, source: Path | None = None, *, progress: Progress = log_software_fetch_progress
) -> Path:
    """Store the XML schema ``activemq.xsd`` of a release in the download cache, and return its path.

    ``source`` is a jar (activemq-core to 5.7, activemq-spring, activemq-all) or a distribution (tar.gz or zip) of
    exactly this release, and replaces a cached XSD; without it, the release's jar comes from the cache or through
    Maven. Raises SchemaUnavailableError.
    """
    if source is None:
        return _cached_schema_path(release, progress)
    xsd = _schema_in_package(source, release)
    return ensure_cached(
        _schema_cache_name(release),
        lambda path: _write_valid_schema(path, xsd),
        progress=progress,
        replace_existing=True,
    )


def _nearest_schema_path(release: Release, progress: Progress) -> Path:
    """Return the cached XML schema of a release, or of the nearest release of its line.

    A cached schema comes first, and then those that Maven is known to deliver. If Maven itself failed, it does not run
    again.
    """
    try:
        return _cached_schema_path(release, progress)
    except (SchemaUnavailableError, ArtifactError) as error:
        reason = _download_failures.get(cache_directory() / _schema_cache_name(release), error)
        maven_works = not isinstance(reason, ArtifactError) or isinstance(reason, _maven.MissingArtifactError)
        for substitute in _other_releases_of_line(release):
            if not (maven_works or _is_available_locally(substitute)):
                continue
            try:
                path = _cached_schema_path(substitute, progress)
            except (SchemaUnavailableError, ArtifactError):
                continue
            if (release, substitute) not in _reported_substitutes:
                _reported_substitutes.add((release, substitute))
                progress(
                    f"the XML schema of ActiveMQ {release} is not available, so the schema of {substitute}, the "
                    f"nearest available release, is used. Reason: {reason}. To add the schema of {release}, run "
                    f"`activemq-fleet schema fetch {release} --from FILE` with a jar or archive of the release"
                )
            return path
        raise error


def _other_releases_of_line(release: Release) -> list[Release]:
    line = Release.of(release.data_release).line
    cached = [cached_release for cached_release in releases_with_cached_schema() if cached_release.line == line]
    cached.sort(key=lambda cached_release: abs(cached_release.version[2] - release.version[2]))
    return [
        candidate
        for candidate in dict.fromkeys((*cached, *releases_with_published_schema(line)))
        if candidate is not release
    ]


def _is_available_locally(release: Release) -> bool:
    """Return whether the XML schema of a release is available without a download."""
    is_cached = (cache_directory() / _schema_cache_name(release)).exists()
    return is_cached or packaged_schema_bytes(release) is not None or any(_jars_in_cache(release))


def _schema_cache_name(release: Release) -> str:
    return f"schemas/{release.text}.xsd"


def _cached_schema_path(release: Release, progress: Progress) -> Path:
    target = cache_directory() / _schema_cache_name(release)
    if (
        target in _download_failures and not target.exists()
    ):  # For a fleet of many brokers, each download is tried once.
        raise _unavailable_error(release, _download_failures[target])

    def write_schema(path: Path) -> None:
        try:
            _write_valid_schema(path, _find_or_download_schema(release, progress))
        except (ArtifactError, SchemaUnavailableError) as error:
            _download_failures[target] = error
            raise _unavailable_error(release, error) from None

    return ensure_cached(_schema_cache_name(release), write_schema, progress=progress)


def _unavailable_error(release: Release, reason: FleetError) -> SchemaUnavailableError:
    return SchemaUnavailableError(
        f"the XML schema of ActiveMQ {release} is not available: {reason}. To take it from a jar or archive of the "
        f"release, run `activemq-fleet schema fetch {release} --from FILE`"
    )


def _write_valid_schema(path: Path, xsd: bytes) -> None:
    CompiledActivemqXsd(xsd)  # The cache must contain only schemas that compile.
    path.write_bytes(xsd)


def _find_or_download_schema(release: Release, progress: Progress) -> bytes:
    if (packaged := packaged_schema_bytes(release)) is not None:
        return packaged
    for jar in _jars_in_cache(release):
        return _schema_in_package(jar, release)
    try:
        return _download_schema(release.schema_jar, release, progress)
    except _maven.MissingArtifactError as first_error:
        try:  # some releases are published as one jar only
            return _download_schema("activemq-all", release, progress)
        except _maven.MissingArtifactError:
            raise first_error from None


def _download_schema(artifact: str, release: Release, progress: Progress) -> bytes:
    progress(f"fetching {artifact} {release} …")
    with tempfile.TemporaryDirectory(prefix="activemq-fleet-") as directory:
        return _schema_in_package(
            _maven.copy_artifact(f"org.apache.activemq:{artifact}:{release}", Path(directory)), release
        )


def _jars_in_cache(release: Release) -> Iterator[Path]:
    for kind in ("distributions", "jars"):
        for artifact in (release.schema_jar, "activemq-all"):
            yield from (cache_directory() / kind).glob(f"{release}*/**/{artifact}-{release}.jar")


def _schema_in_package(source: Path, release: Release) -> bytes:
    try:
        with source.open("rb") as file:
            for name, jar in _activemq_jars_in(file, source.name):
                if _XSD_NAME in jar.namelist():
                    _raise_if_jar_of_other_release(source, name, jar, release)
                    return _read_limited(jar.open(_XSD_NAME), _XSD_LIMIT, source)
    except ERRORS_OF_DAMAGED_ARCHIVES as error:
        raise SchemaUnavailableError(f"the file {source} is damaged ({error}): download it again") from None
    except OSError as error:
        raise SchemaUnavailableError(
            f"the file {source} cannot be read ({error.strerror or error}): correct its path, or allow this account "
            "to read it"
        ) from None
    raise SchemaUnavailableError(
        f"the file {source} contains no schema {_XSD_NAME}: use {release.schema_jar}-{release}.jar, or the tar.gz or "
        "zip of the release"
    )


def _activemq_jars_in(file: IO[bytes], name: str) -> Iterator[tuple[str, zipfile.ZipFile]]:
    """Yield (name, opened jar): a jar or zip and the ActiveMQ jars inside it, or the ActiveMQ jars inside a tar.gz."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            yield name, archive
            for member in filter(_JAR_NAME.search, archive.namelist()):
                with zipfile.ZipFile(io.BytesIO(_read_limited(archive.open(member), _JAR_LIMIT, name))) as jar:
                    yield member, jar
        return
    file.seek(0)
    if not tarfile.is_tarfile(file):
        raise SchemaUnavailableError(
            f"the file {file.name} is neither a jar nor a zip nor a tar.gz: use the jar or archive of the release"
        )
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        for entry in tar:
            content = tar.extractfile(entry) if entry.isreg() and _JAR_NAME.search(entry.name) else None
            if content is not None:
                with zipfile.ZipFile(io.BytesIO(_read_limited(content, _JAR_LIMIT, name))) as jar:
                    yield entry.name, jar
        verify_checksum_of_tar_archive(tar)


def _read_limited(content: IO[bytes], limit: int, source: Path | str) -> bytes:
    with content:
        data = content.read(limit + 1)
    if len(data) > limit:
        raise SchemaUnavailableError(
            f"the file {source} unpacks to more than {limit >> 20} MiB, so it is not a file of ActiveMQ: use the jar "
            "or archive of the release"
        )
    return data


def _raise_if_jar_of_other_release(source: Path, name: str, jar: zipfile.ZipFile, release: Release) -> None:
    pom = next(filter(_POM_PROPERTIES.fullmatch, jar.namelist()), None)
    text = _read_limited(jar.open(pom), _XSD_LIMIT, source).decode("utf-8", "replace") if pom else ""
    version_match = re.search(r"^version=(\S+)", text, re.MULTILINE) or _JAR_NAME.search(name)
    version = version_match[1] if version_match else release.text
    # Builds of other vendors have a suffix, such as 5.11.0.redhat-630187.
    if version != release.text and not version.startswith((f"{release}.", f"{release}-")):
        raise SchemaUnavailableError(
            f"the file {source} is of release {version}, not {release}: use the jar or archive of ActiveMQ {release}"
        )
