"""Two builds of one commit are the same bytes, with SBOMs that name each pinned requirement and its hashes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from activemq_fleet import __version__
from scripts.build_packages import (
    BuildError,
    normalize_collection,
    pack_wheelhouse,
    sign_checksums,
    write_checksums,
    write_requirements,
)
from scripts.sbom import (
    SbomError,
    agent,
    library,
    read_pins,
    write_agent_sbom,
    write_collection_sbom,
    write_library_sbom,
)
from tests.situations import in_every_situation, some_situations

ROOT = Path(__file__).resolve().parents[3]
EPOCH = 1_700_000_000
BUILD = """
import sys
from pathlib import Path
from scripts.build_packages import build_distributions
for path in build_distributions(Path(sys.argv[1]), int(sys.argv[2])):
    print(path.name)
"""


def copy_sources(target: Path, seed: int) -> None:
    """Copy the tracked files in a random order, with random times and modes that a umask of 077 leaves."""
    tracked_files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    # No artifact contains tests or pictures.
    names = [
        name
        for name in filter(None, tracked_files.split("\0"))
        if not name.startswith(("tests/", "docs/pictures/")) and os.path.lexists(ROOT / name)
    ]
    generator = random.Random(seed)
    generator.shuffle(names)
    for name in names:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy2(ROOT / name, path, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
            moment = generator.randrange(400_000_000, 1_900_000_000)
            os.utime(path, (moment, moment))


def build(sources: Path, output: Path, *, variables: dict[str, str], umask: int, clock: list[str]) -> dict[str, str]:
    """Build in a separate process; return the SHA-256 of each file."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LC_ALL", "LANG", "TZ")}
    command = [*clock, sys.executable, "-c", BUILD, str(output), str(EPOCH)]
    subprocess.run(command, cwd=sources, env=environment | variables, umask=umask, check=True, capture_output=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(output.iterdir())}


@in_every_situation
def test_builds_in_different_directories_at_different_times_are_identical(tmp_path: Path) -> None:
    # Only a machine with faketime changes the clock; all machines test the other differences.
    clock_command = ["faketime", "-f", "+400d"] if shutil.which("faketime") else []
    hashes = []
    for seed, place, umask, clock, variables in (
        (1, "a", 0o022, [], {"TZ": "UTC", "LC_ALL": "C.UTF-8", "USER": "first", "PYTHONHASHSEED": "1"}),
        (2, "another/place", 0o077, clock_command, {"TZ": "Asia/Tokyo", "LC_ALL": "en_US.UTF-8", "USER": "second"}),
    ):
        sources = tmp_path / place / "checkout"
        copy_sources(sources, seed)
        hashes.append(build(sources, tmp_path / place / "dist", variables=variables, umask=umask, clock=clock))
    assert hashes[0] == hashes[1]
    assert len([name for name in hashes[0] if name.endswith((".whl", ".tar.gz"))]) == 3
    assert len([name for name in hashes[0] if name.endswith(".cdx.json")]) == 3


@some_situations(1)
@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_collection_archive_is_checked_in_locale_without_utf_8(tmp_path: Path, locale: str) -> None:
    code = "import pathlib, sys; from scripts import check_packages as c; c.check_galaxy(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"LC_ALL": locale}, check=True, capture_output=True)


def build_galaxy_archive(names: list[str], moment: int) -> bytes:
    """Return an archive as ansible-galaxy builds it, with its files in the order of the names."""
    contents = {name: f"content of {name}\n".encode() for name in names}
    files = {
        "files": [{"name": ".", "ftype": "dir"}, *({"name": name, "ftype": "file"} for name in names)],
        "format": 1,
    }
    listing = json.dumps(files, indent=True).encode()
    manifest = {
        "collection_info": {"readme": "GALAXY.md"},
        "file_manifest_file": {"name": "FILES.json", "chksum_sha256": hashlib.sha256(listing).hexdigest()},
    }
    contents = {"MANIFEST.json": json.dumps(manifest, indent=True).encode(), "FILES.json": listing} | contents
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname = len(content), moment + 0.5, "builder"
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_collection_archive_is_independent_of_file_order_and_times() -> None:
    names = ["roles/broker/a.yml", "GALAXY.md", "plugins/b.py"]
    normalized_archive = normalize_collection(build_galaxy_archive(names, 1), EPOCH)
    assert normalized_archive == normalize_collection(build_galaxy_archive(names[::-1], 2_000_000_000), EPOCH)
    with tarfile.open(fileobj=io.BytesIO(normalized_archive)) as archive:
        members = archive.getmembers()
        contents = {member.name: (archive.extractfile(member) or io.BytesIO()).read() for member in members}
    assert [member.name for member in members][2:] == ["README.md", "plugins/b.py", "roles/broker/a.yml"]
    assert {(member.mtime, member.uname) for member in members} == {(EPOCH, "")}
    recorded = json.loads(contents["MANIFEST.json"])["file_manifest_file"]["chksum_sha256"]
    assert recorded == hashlib.sha256(contents["FILES.json"]).hexdigest()
    assert contents["README.md"] == b"content of GALAXY.md\n"
    assert json.loads(contents["MANIFEST.json"])["collection_info"]["readme"] == "README.md"


def test_wheelhouse_archive_is_independent_of_file_order_and_times(tmp_path: Path) -> None:
    archives: list[bytes] = []
    for place, names in (("first", ["b.whl", "a.whl"]), ("second", ["a.whl", "b.whl"])):
        wheelhouse = tmp_path / place / "wheelhouse"
        wheelhouse.mkdir(parents=True)
        for name in names:
            (wheelhouse / name).write_text(name)
            os.utime(wheelhouse / name, (len(archives), len(archives)))
        archives.append(pack_wheelhouse(wheelhouse, tmp_path / f"{place}.tar.gz", EPOCH).read_bytes())
    assert archives[0] == archives[1]


def hashes_of(requirements: str) -> dict[str, set[str]]:
    """Return the hashes of each NAME==VERSION of a requirements file, by another parser than that of the SBOM."""
    text = (ROOT / "requirements" / requirements).read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if re.match(r"\w", line)]
    return {words[0]: {word.removeprefix("--hash=sha256:") for word in words[1:]} for words in lines}


def hashes_in(sbom: Path) -> dict[str, set[str]]:
    """Return the hashes of each NAME==VERSION of an SBOM."""
    return {
        f"{component['name']}=={component['version']}": {digest["content"] for digest in component["hashes"]}
        for component in json.loads(sbom.read_text())["components"]
    }


@pytest.fixture
def artifacts(tmp_path: Path) -> dict[str, Path]:
    """Return the files for which the tests write SBOMs."""
    paths = {name: tmp_path / name for name in ("library.whl", "agent.whl", "collection.tar.gz")}
    for name, path in paths.items():
        path.write_text(name)
    return paths


def hashes_of_wheels(*paths: Path) -> dict[str, set[str]]:
    """Return the hashes of each NAME==VERSION of wheels of this project."""
    names = {"library.whl": "activemq-fleet", "agent.whl": "activemq-agent"}
    return {f"{names[path.name]}==1.2.3": {hashlib.sha256(path.read_bytes()).hexdigest()} for path in paths}


def test_sbom_of_agent_names_every_pin_with_its_hashes(artifacts: dict[str, Path]) -> None:
    sbom = write_agent_sbom(artifacts["agent.whl"], agent(), "1.2.3", EPOCH)
    assert hashes_in(sbom) == hashes_of("agent.txt")
    metadata = json.loads(sbom.read_text())["metadata"]
    assert metadata["timestamp"] == "2023-11-14T22:13:20+00:00"
    (root,) = metadata["component"]["hashes"]
    assert root == {"alg": "SHA-256", "content": hashlib.sha256(b"agent.whl").hexdigest()}


def test_sbom_of_library_names_every_pin_and_agent_with_hashes(artifacts: dict[str, Path]) -> None:
    sbom = write_library_sbom(artifacts["library.whl"], artifacts["agent.whl"], library(), "1.2.3", EPOCH)
    assert hashes_in(sbom) == hashes_of("pipeline.txt") | hashes_of_wheels(artifacts["agent.whl"])


def test_sbom_of_library_separates_requirements_of_extras(artifacts: dict[str, Path]) -> None:
    sbom = write_library_sbom(artifacts["library.whl"], artifacts["agent.whl"], library(), "1.2.3", EPOCH)
    document = json.loads(sbom.read_text())
    scopes = {component["name"]: component["scope"] for component in document["components"]}
    assert {scopes[name] for name in ("ansible-core", "lxml", "cryptography", "markupsafe", "click")} == {"required"}
    optional = ("pyspark", "pyarrow", "paho-mqtt", "psutil", "structlog", "activemq-agent")
    assert {scopes[name] for name in optional} == {"optional"}
    assert "pytest" not in scopes


def test_sbom_of_collection_names_wheels_and_every_dependency_with_hash(artifacts: dict[str, Path]) -> None:
    collection, *wheels = (artifacts[name] for name in ("collection.tar.gz", "library.whl", "agent.whl"))
    hashes_by_package = hashes_in(write_collection_sbom(collection, wheels[0], wheels[1], library(), "1.2.3", EPOCH))
    pinned = hashes_of("pipeline.txt") | hashes_of_wheels(*wheels)
    assert {name: pinned[name] for name in hashes_by_package} == hashes_by_package
    names = {name.partition("==")[0] for name in hashes_by_package}
    assert {"activemq-fleet", "activemq-agent", "ansible-core", "cryptography", "structlog"} <= names
    assert not {"pyspark", "psutil", "pytest"} & names


def test_requirements_of_release_pin_wheels_and_every_package(tmp_path: Path) -> None:
    contents = {f"activemq_{name}-{__version__}-py3-none-any.whl": name for name in ("fleet", "agent")}
    for file, text in contents.items():
        (tmp_path / file).write_text(text)
    paths = write_requirements(tmp_path)
    assert [path.name for path in paths] == ["requirements.txt", "requirements-pipeline.txt"]
    for path, pins in zip(paths, ("run.txt", "pipeline.txt"), strict=True):
        text = path.read_text().replace("\\\n", " ")
        lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
        hashes_by_name = {words[0]: {word.removeprefix("--hash=sha256:") for word in words[1:]} for words in lines}
        wheels = {name: hashes for name, hashes in hashes_by_name.items() if name.startswith("./")}
        assert {name[2:].partition("[")[0]: hashes for name, hashes in wheels.items()} == {
            file: {hashlib.sha256(text.encode()).hexdigest()} for file, text in contents.items()
        }
        assert {name: hashes for name, hashes in hashes_by_name.items() if name not in wheels} == hashes_of(pins)


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_pinned_requirements_contain_requirements_of_each_python_version(version: str) -> None:
    # The pins are those of Python 3.11, so they would lack a requirement that only a later version has.
    pinned = {canonicalize_name(name.partition("==")[0]): name.partition("==")[2] for name in hashes_of("pipeline.txt")}
    markers = {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": "linux", "extra": ""}
    checked_requirements = 0
    for name, pin in pinned.items():
        distribution = importlib.metadata.distribution(name)
        assert distribution.version == pin, name
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate(markers):
                assert canonicalize_name(requirement.name) in pinned, f"{name} requires {requirement}"
                checked_requirements += 1
    assert checked_requirements > 20


def test_sbom_refuses_pinned_requirement_without_hash() -> None:
    with pytest.raises(SbomError, match="click has no hash"):
        read_pins("click==8.5.1\n    # via activemq-agent\n")


def test_checksums_name_each_file_and_detect_a_change(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b.whl", "a.tar.gz")]
    for path in files:
        path.write_text(path.name)
    write_checksums(files, tmp_path / "SHA256SUMS")
    check_command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert (
        subprocess.run(check_command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.count(": OK")
        == 2
    )
    files[0].write_text("changed")
    assert subprocess.run(check_command, cwd=tmp_path, check=False, capture_output=True).returncode == 1


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen: signatures are not tested")
def test_signature_of_checksums_is_valid_until_they_change(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    checksums = tmp_path / "SHA256SUMS"
    checksums.write_text("0  a\n")
    signature = sign_checksums(checksums, key)
    allowed = tmp_path / "allowed_signers"
    allowed.write_text(f"release {key.with_suffix('.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "release", "-n", "file", "-s", str(signature)]
    assert subprocess.run(verify, input=b"0  a\n", check=False, capture_output=True).returncode == 0
    assert subprocess.run(verify, input=b"0  b\n", check=False, capture_output=True).returncode != 0


def test_signing_with_missing_key_raises_build_error(tmp_path: Path) -> None:
    checksums = tmp_path / "SHA256SUMS"
    checksums.write_text("0  a\n")
    with pytest.raises(BuildError, match="ssh-keygen"):
        sign_checksums(checksums, tmp_path / "missing")
