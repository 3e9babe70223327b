"""Build all files of a release, with their SBOMs and checksums. Two builds of a commit are equal byte for byte.

    python -m scripts.build_packages [--output DIRECTORY] [--sign KEY]

All times in an artifact are the time of the last commit, or SOURCE_DATE_EPOCH if it is set. ``--sign`` signs SHA256SUMS
with a key of ssh-keygen. The bytes depend on the interpreter's zlib and on the pinned hatchling and ansible-core.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from activemq_fleet import __version__
from scripts import sbom, wheelhouse
from scripts.archived_links import DeadLinkError, name_help_topics, name_help_topics_in_changelog

ROOT = Path(__file__).resolve().parents[1]
CHECKSUMS = "SHA256SUMS"
CHANGELOG = "changelogs/changelog.yaml"
WHEELHOUSE = "activemq-agent-wheelhouse"
REQUIREMENTS = {
    "requirements.txt": ("lab", "run.txt"),
    "requirements-pipeline.txt": ("lab,pipeline", "pipeline.txt"),
}
"""The requirements files of a release, each with the extras of the library and the file that pins its packages."""
_SIGNATURE_NAMESPACE = "file"


class BuildError(Exception):
    """A tool could not build or sign an artifact."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build all files, and print their paths; print one line for the first problem."""
    parser = argparse.ArgumentParser(prog="build_packages", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="output directory (default: dist)")
    parser.add_argument("--sign", type=Path, metavar="KEY", help=f"sign {CHECKSUMS} with this key of ssh-keygen")
    options = parser.parse_args(arguments)
    try:
        built = build_release(options.output, source_date())
        if options.sign:
            built.append(sign_checksums(options.output / CHECKSUMS, options.sign))
    except (BuildError, DeadLinkError, sbom.SbomError, wheelhouse.WheelhouseError) as error:
        print(f"build_packages: error: {error}", file=sys.stderr)
        return 1
    for path in built:
        print(f"{path}  {path.stat().st_size:,} bytes")
    return 0


def source_date() -> int:
    """Return SOURCE_DATE_EPOCH of the environment, or the time of the last commit, in seconds."""
    text = os.environ.get("SOURCE_DATE_EPOCH") or _last_commit_time()
    # A zip archive cannot contain an earlier time.
    if not text.isdecimal() or int(text) < 315532800:
        raise BuildError(f"SOURCE_DATE_EPOCH is {text!r}; set it to the seconds since 1970 of a time after 1980-01-01")
    return int(text)


def build_release(output: Path, epoch: int) -> list[Path]:
    """Build all files of a release: distributions, requirements, wheelhouse and checksums; return their paths."""
    built = build_distributions(output, epoch)
    built += write_requirements(output)
    house = output / WHEELHOUSE
    wheelhouse.make(house, output / _wheel_name("activemq_agent"))
    built.append(pack_wheelhouse(house, output / f"{WHEELHOUSE}-{__version__}.tar.gz", epoch))
    return [*built, write_checksums(built, output / CHECKSUMS)]


def build_distributions(output: Path, epoch: int) -> list[Path]:
    """Build both wheels and the collection with their SBOMs, without a network; return the paths of all files."""
    output.mkdir(parents=True, exist_ok=True)
    library, agent, collection = (build(output, epoch) for build in (build_library, build_agent, build_collection))
    product = sbom.library()
    return [
        library,
        sbom.write_library_sbom(library, agent, product, __version__, epoch),
        agent,
        sbom.write_agent_sbom(agent, sbom.agent(), __version__, epoch),
        collection,
        sbom.write_collection_sbom(collection, library, agent, product, __version__, epoch),
    ]


def build_library(output: Path, epoch: int) -> Path:
    """Build the wheel of the library and return its path."""
    return _build_wheel(ROOT, output / _wheel_name("activemq_fleet"), epoch)


def build_agent(output: Path, epoch: int) -> Path:
    """Build the wheel of the agent and return its path."""
    return _build_wheel(ROOT / "agent", output / _wheel_name("activemq_agent"), epoch)


def build_collection(output: Path, epoch: int) -> Path:
    """Build the archive of the collection, make it reproducible, and return its path."""
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    run_program([galaxy, "collection", "build", "--force", "--output-path", str(output), str(ROOT)])
    archive = output / f"activemq-fleet-{__version__}.tar.gz"
    if not archive.is_file():
        raise BuildError(f"ansible-galaxy did not build {archive.name}: run `python -m scripts.set_version --check`")
    archive.write_bytes(normalize_collection(archive.read_bytes(), epoch))
    return archive


def normalize_collection(archive: bytes, epoch: int) -> bytes:
    """Return an archive of ansible-galaxy with sorted files, a fixed time, and README.md in place of GALAXY.md.

    Links to the documentation become the commands that print it.

    ansible-galaxy lists files in the order of the directory and records the time of the build. MANIFEST.json contains
    the checksum of FILES.json, which changes with the order. Galaxy imports no collection without README.md, which is
    the page of the project in the checkout.
    """
    contents: dict[str, bytes] = {}
    members: dict[str, tarfile.TarInfo] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened.getmembers():
            file = opened.extractfile(member) if member.isfile() else None
            member.name = _archived_name(member.name)
            members[member.name] = member
            contents[member.name] = file.read() if file else b""
    for name in contents:
        if name.endswith(".md"):
            contents[name] = name_help_topics(contents[name].decode(), name, contents).encode()
        elif name == CHANGELOG:
            changelog = contents[name].decode()
            contents[name] = name_help_topics_in_changelog(changelog, "CHANGELOG.md", contents).encode()
    files = json.loads(contents["FILES.json"])
    for entry in files["files"]:
        entry["name"] = _archived_name(entry["name"])
        if entry["ftype"] == "file":
            entry["chksum_sha256"] = hashlib.sha256(contents[entry["name"]]).hexdigest()
    files["files"].sort(key=lambda entry: entry["name"])
    contents["FILES.json"] = _json_bytes(files)
    manifest = json.loads(contents["MANIFEST.json"])
    manifest["collection_info"]["readme"] = _archived_name(manifest["collection_info"]["readme"])
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(contents["FILES.json"]).hexdigest()
    contents["MANIFEST.json"] = _json_bytes(manifest)
    # The two manifests come first, as ansible-galaxy writes them.
    names = sorted(members, key=lambda name: (name not in ("MANIFEST.json", "FILES.json"), name))
    return _tar([(members[name], contents[name]) for name in names], epoch)


def _archived_name(name: str) -> str:
    return "README.md" if name == "GALAXY.md" else name


def pack_wheelhouse(house: Path, archive: Path, epoch: int) -> Path:
    """Write an archive of a wheelhouse, because a release publishes files and no directories."""
    members = []
    for wheel in sorted(house.iterdir()):
        member = tarfile.TarInfo(f"{house.name}/{wheel.name}")
        member.mode = 0o644
        members.append((member, wheel.read_bytes()))
    archive.write_bytes(_tar(members, epoch))
    return archive


def write_requirements(output: Path) -> list[Path]:
    """Write the requirements files that install both wheels of ``output`` and pinned packages; return their paths.

    ``pip install --require-hashes`` verifies each file, including the wheels.
    """
    library, agent = (output / _wheel_name(name) for name in ("activemq_fleet", "activemq_agent"))
    paths = []
    for name, (extras, pins) in REQUIREMENTS.items():
        lines = [
            "# Install from the directory of this file: pip install --require-hashes --requirement " + name,
            f"./{library.name}[{extras}] --hash=sha256:{_sha256(library)}",
            f"./{agent.name} --hash=sha256:{_sha256(agent)}",
        ]
        pinned = (ROOT / "requirements" / pins).read_text(encoding="utf-8")
        lines += [line for line in pinned.splitlines() if not line.lstrip().startswith("#")]
        path = output / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def write_checksums(paths: Sequence[Path], target: Path) -> Path:
    """Write the SHA-256 of each file in the format of ``sha256sum``."""
    lines = [f"{_sha256(path)}  {path.name}\n" for path in sorted(paths)]
    target.write_text("".join(lines), encoding="utf-8")
    return target


def sign_checksums(checksums: Path, key: Path) -> Path:
    """Sign the file of checksums with a key of ssh-keygen and return the path of the signature."""
    signature = checksums.with_name(checksums.name + ".sig")
    signature.unlink(missing_ok=True)
    run_program(["ssh-keygen", "-q", "-Y", "sign", "-n", _SIGNATURE_NAMESPACE, "-f", str(key), str(checksums)])
    return signature


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _wheel_name(distribution: str) -> str:
    return f"{distribution}-{__version__}-py3-none-any.whl"


def _build_wheel(project: Path, wheel: Path, epoch: int) -> Path:
    run_program(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheel.parent), str(project)],
        os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
    )
    if not wheel.is_file():
        raise BuildError(f"the build of {project} did not write {wheel.name}")
    return wheel


def _json_bytes(value: object) -> bytes:
    # ansible-galaxy writes both manifests with this indentation.
    return json.dumps(value, indent=True).encode()


def _tar(members: Sequence[tuple[tarfile.TarInfo, bytes]], epoch: int) -> bytes:
    output = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=output, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for source, content in members:
            # A new header, because the header of the source may contain its time with fractions in an extended header.
            member = tarfile.TarInfo(source.name)
            member.type, member.linkname, member.mode = source.type, source.linkname, source.mode
            member.mtime, member.size = epoch, len(content)
            archive.addfile(member, io.BytesIO(content))
    return output.getvalue()


def _last_commit_time() -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        process = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        process = None
    if process is None or process.returncode:
        raise BuildError(f"{ROOT} is not a checkout with a commit: set SOURCE_DATE_EPOCH to the time of the source")
    return process.stdout.strip()


def run_program(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Run a program in a UTF-8 locale. Raises BuildError with the end of its output if it fails or is missing."""
    try:
        process = subprocess.run(
            command,
            # ansible-galaxy requires a UTF-8 locale that the machine has.
            env={**environment, "LC_ALL": "C.UTF-8"},
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except FileNotFoundError as error:
        raise BuildError(f"the program {command[0]} is missing: install it") from error
    if process.returncode:
        output = process.stdout[-2000:].strip()
        raise BuildError(f"{' '.join(command[:4])} … exited with {process.returncode}: {output}")


if __name__ == "__main__":
    sys.exit(main())
