"""Fetch broker software: the jars of a release, or its whole distribution."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tarfile
import time
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath

from activemq_fleet.artifacts import _maven
from activemq_fleet.artifacts._cache import Progress, cache_directory, ensure_cached, log_software_fetch_progress
from activemq_fleet.artifacts._damaged_archives import ERRORS_OF_DAMAGED_ARCHIVES, verify_checksum_of_tar_archive
from activemq_fleet.errors import ArtifactError
from activemq_fleet.node.install.jars import releases_in_directory
from activemq_fleet.releases import Release

_POSTGRESQL_DRIVER = "org.postgresql:postgresql:42.7.7"
_EXPORTER = "io.prometheus.jmx:jmx_prometheus_javaagent:0.20.0"
EXPORTER_SHA512 = (
    "c392df22a888114bc6eaec9b89a3d4cd25cfd2120b4f9c0858cfedecc428ae6d"
    "265463097c283cba57d1f20b8742a51aaddbcce157c913630246224117086bac"
)
"""The checksum of the metrics exporter's jar, as Maven delivered it when it was chosen."""
_SECONDS_PER_DAY = 86400
"""Seconds until a failed download of a distribution is repeated: Maven takes 30 s to fail."""


class RecentDownloadFailureError(ArtifactError):
    """An error for an ActiveMQ distribution that is not downloaded, because a download failed in the last 24 hours."""


def local_archive_hint(release: Release) -> str:
    """Return a hint how to use a local archive of an ActiveMQ release.

    It is for the lab, if the archive or the jars of the release cannot be downloaded.
    """
    return (
        f"If you have release {release}, add -e activemq_archive=FILE with its apache-activemq-{release}-bin.tar.gz, "
        "or with the directory to which it was unpacked. Otherwise run the lab with another release: add -e "
        "activemq_release=RELEASE"
    )


def fetch_jar_directory(release: Release, *, progress: Progress = log_software_fetch_progress) -> Path:
    """Return the directory of the jars that a broker of an ActiveMQ release needs; fetch them with Maven if not cached.

    A broker can be started with them and ``org.apache.activemq.console.Main``. The jars have OpenWire, STOMP, MQTT,
    mostly AMQP (``release.jar_schemes``), KahaDB, JDBC stores with a connection pool, and a logging back end; no web
    console and no JDBC driver. 9 to 32 MB. Raises ArtifactError when Maven does not have all of them.
    """
    pom_resource = files(__package__).joinpath("broker-pom.xml")

    def copy_jars(directory: Path) -> None:
        progress(f"fetching the jars of ActiveMQ {release} …")
        with as_file(pom_resource) as pom:
            _maven.copy_dependencies(pom, release.jar_properties, release.jar_profiles, directory)

    # A directory that was made with an older POM lacks jars and may be in use, so each POM has a separate directory.
    version = hashlib.sha256(pom_resource.read_bytes()).hexdigest()[:8]
    try:
        return ensure_cached(f"jars/{release}-{version}", copy_jars, progress=progress)
    except ArtifactError as error:
        raise ArtifactError(
            f"the jars of ActiveMQ {release} are not available: {error}. {local_archive_hint(release)}"
        ) from None


def fetch_and_unpack_distribution(release: Release, *, progress: Progress = log_software_fetch_progress) -> Path | None:
    """Return the directory of a release's unpacked distribution; download and unpack it if it is not cached.

    The directory is usable as ``ACTIVEMQ_HOME``. Returns None when the distribution is not published
    (``release.distribution_available``) and not in the cache. Raises ArtifactError when a published distribution cannot
    be fetched; for a day after Maven failed, RecentDownloadFailureError is raised without another attempt.
    """
    name = f"distributions/{release}"
    if (cache_directory() / name).is_dir():
        return cache_directory() / name
    if not release.distribution_available:
        return None
    failure_file = cache_directory() / "distributions" / f".{release}.refused"
    _raise_if_download_failed_recently(failure_file)

    def download_and_unpack(directory: Path) -> None:
        progress(f"fetching the distribution of ActiveMQ {release} …")
        download = directory.with_suffix(".download")
        shutil.rmtree(download, ignore_errors=True)
        try:
            _unpack(_download(release, download, failure_file), directory)
        finally:
            shutil.rmtree(download, ignore_errors=True)

    return ensure_cached(name, download_and_unpack, progress=progress)


def _download(release: Release, directory: Path, failure_file: Path) -> Path:
    """Return a release's downloaded archive.

    Raises ArtifactError. If Maven ran and failed, the message is also recorded in ``failure_file``. A missing Maven or
    Java is not recorded, because the next command can work after its installation.
    """
    try:
        return _maven.copy_artifact(f"org.apache.activemq:apache-activemq:{release}:tar.gz:bin", directory)
    except ArtifactError as error:
        message = f"the distribution of ActiveMQ {release} cannot be downloaded: {error}"
        if isinstance(error, _maven.FailedMavenRunError):
            with contextlib.suppress(OSError):  # without a writable cache, each run repeats the download
                failure_file.write_text(message, encoding="utf-8")
        raise ArtifactError(message) from None


def local_distribution_directory(
    archive_or_directory: Path,
    release: Release,
    sha512: str | None,
    *,
    progress: Progress = log_software_fetch_progress,
) -> Path:
    """Return the directory of an ActiveMQ release's distribution, from a local tar archive or an unpacked directory.

    ``archive_or_directory`` is the release's tar archive, which is unpacked, or the directory to which it was unpacked;
    ``sha512`` is the checksum that a file must have, in small or capital letters. Raises ArtifactError for a file or
    directory that does not contain this release.
    """
    home = (
        archive_or_directory
        if archive_or_directory.is_dir()
        else _unpacked_local_archive(archive_or_directory, release, sha512, progress)
    )
    _raise_if_other_release(home / "lib", archive_or_directory, release)
    return home


def checked_jar_directory(directory: Path, release: Release) -> Path:
    """Check that the jars in a local directory are those of an ActiveMQ release, and return the directory.

    Raises ArtifactError if they are not of the release.
    """
    _raise_if_other_release(directory, directory, release)
    return directory


def _raise_if_other_release(library: Path, archive: Path, release: Release) -> None:
    releases = releases_in_directory(str(library))
    if releases != [release.text]:
        contained = f"the broker of ActiveMQ {', '.join(releases)}" if releases else "no broker of ActiveMQ"
        raise ArtifactError(
            f"{archive} contains {contained}, but activemq_release is {release}: set activemq_archive to "
            f"apache-activemq-{release}-bin.tar.gz, or to the directory to which it was unpacked"
        )


def _unpacked_local_archive(archive: Path, release: Release, sha512: str | None, progress: Progress) -> Path:
    try:
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha512").hexdigest()
    except OSError as error:
        raise ArtifactError(
            f"the archive {archive} cannot be read ({error.strerror or error}): correct activemq_archive, or allow "
            "this account to read the file"
        ) from None
    if sha512 is not None and sha512.lower() != digest:
        raise ArtifactError(
            f"the SHA-512 checksum of {archive} begins with {digest[:16]}, but activemq_archive_sha512 begins with "
            f"{sha512[:16]}: download the archive again, or correct the variable"
        )

    def unpack(directory: Path) -> None:
        progress(f"unpacking {archive} …")
        _unpack(archive, directory)

    return ensure_cached(f"distributions/{release}-{digest[:16]}", unpack, progress=progress)


def postgresql_driver_jar_path(*, progress: Progress = log_software_fetch_progress) -> Path:
    """Return the path of the jar with PostgreSQL's JDBC driver.

    Its class is ``org.postgresql.Driver``; 1 MB, for Java 8 on. Raises ArtifactError when Maven does not have it.
    """

    def download(directory: Path) -> None:
        progress("fetching the JDBC driver of PostgreSQL …")
        _maven.copy_artifact(_POSTGRESQL_DRIVER, directory)

    return _cached_jar(_POSTGRESQL_DRIVER, download, progress)


def prometheus_jmx_exporter_jar(
    local_jar: Path | None = None, *, progress: Progress = log_software_fetch_progress
) -> Path:
    """Return the path of the jar of the Prometheus JMX exporter, which is downloaded if it is not cached.

    It is a Java agent; 0.6 MB, for Java 8 and later. ``local_jar`` is a copy of the jar: its path is returned, and
    nothing is downloaded.
    Raises ArtifactError when the jar cannot be had, or its checksum is not ``EXPORTER_SHA512``.
    """

    def download(directory: Path) -> None:
        progress("fetching the Prometheus JMX exporter …")
        _check_sha512(_maven.copy_artifact(_EXPORTER, directory))

    if local_jar is not None:
        _check_sha512(local_jar)
        return local_jar
    return _cached_jar(_EXPORTER, download, progress)


def _cached_jar(coordinate: str, make: Callable[[Path], None], progress: Progress) -> Path:
    try:
        directory = ensure_cached(f"drivers/{coordinate.replace(':', '-')}", make, progress=progress)
    except ArtifactError as error:
        raise ArtifactError(
            f"the jar {coordinate} is not available: {error}. Check the settings of Maven and the connection to its "
            "repository"
        ) from None
    return next(directory.glob("*.jar"))


def _check_sha512(jar: Path) -> None:
    try:
        digest = hashlib.sha512(jar.read_bytes()).hexdigest()
    except OSError as error:
        raise ArtifactError(
            f"the jar {jar} cannot be read ({error.strerror or error}): correct activemq_metrics_archive, or allow "
            "this account to read the file"
        ) from None
    if digest != EXPORTER_SHA512:
        raise ArtifactError(
            f"the file {jar} is not the jar {_EXPORTER}: its SHA-512 checksum begins with {digest[:16]}, not "
            f"{EXPORTER_SHA512[:16]}. Download the jar again"
        )


def _raise_if_download_failed_recently(failure_file: Path) -> None:
    try:
        age, message = time.time() - failure_file.stat().st_mtime, failure_file.read_text(encoding="utf-8")
    except OSError:
        return
    if 0 <= age < _SECONDS_PER_DAY:
        raise RecentDownloadFailureError(
            f"{message}. For one day after this failure, no command tries the download again. To try again now, remove "
            f"the file {failure_file}"
        )


def _unpack(archive: Path, directory: Path) -> None:
    """Unpack a distribution without its top directory. Raises ArtifactError for entries that no distribution has."""
    try:
        with tarfile.open(archive) as tar:
            for entry in tar:
                parts = PurePosixPath(entry.name).parts
                if ".." in parts or entry.name.startswith("/") or not (entry.isreg() or entry.isdir()):
                    raise ArtifactError(
                        f"the archive {archive.name} was not unpacked, because it contains {entry.name!r}, which no "
                        "release of ActiveMQ contains. Download the archive again, and check its checksum"
                    )
                target = directory.joinpath(*parts[1:])
                if entry.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(entry)
                assert content is not None  # noqa: S101 -- it is a regular file
                with content, target.open("wb") as file:
                    shutil.copyfileobj(content, file)
                target.chmod(0o755 if entry.mode & 0o100 else 0o644)
            verify_checksum_of_tar_archive(tar)
    except ERRORS_OF_DAMAGED_ARCHIVES as error:
        raise ArtifactError(
            f"the archive {archive.name} is damaged, and cannot be unpacked ({error}): remove it, and its copy in the "
            "local repository of Maven (by default below ~/.m2/repository/org/apache/activemq), and download it again"
        ) from None
    if not (directory / "lib").is_dir():
        raise ArtifactError(
            f"the archive {archive.name} is not a distribution of ActiveMQ, because it contains no directory lib: use "
            "the file apache-activemq-RELEASE-bin.tar.gz of the release"
        )
