"""Describe what an artifact needs, as a software bill of materials (SBOM) in the CycloneDX format.

Each pinned requirement is a component with the SHA-256 of every file that its index has of that version. The
requirements of an extra have the scope "optional". The same pins and the same artifact make the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SUFFIX = ".cdx.json"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s\\;]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_PARENT = re.compile(r"^ +#(?: +via)? +([A-Za-z0-9][A-Za-z0-9._-]*)(?: \(.*\))?$", re.MULTILINE)


class SbomError(Exception):
    """A requirement is not pinned, or the document does not match the schema of CycloneDX."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One requirement of a file that pip-compile wrote: its hashes, and the packages that require it."""

    name: str
    version: str
    hashes: tuple[str, ...]
    parents: frozenset[str]


@dataclass(frozen=True, slots=True)
class Product:
    """A distribution of this project: the requirements of its metadata, and the file that pins them."""

    name: str
    required: frozenset[str]
    optional: frozenset[str]
    pins: Mapping[str, Pin]


@dataclass(frozen=True, slots=True)
class Requirer:
    """A component with the packages that it requires always, and those that it requires for an extra."""

    component: Component
    required: frozenset[str]
    optional: frozenset[str]
    built: tuple[Component, ...] = ()
    """The wheels of this project that the component needs."""


def library() -> Product:
    """Return the library with the requirements of its extras."""
    return _product(ROOT / "pyproject.toml", ROOT / "requirements" / "pipeline.txt")


def agent() -> Product:
    """Return the failover agent."""
    return _product(ROOT / "agent" / "pyproject.toml", ROOT / "requirements" / "agent.txt")


def read_pins(text: str) -> dict[str, Pin]:
    """Return the pins of a requirements file by their normalized names; SbomError for a pin without a hash."""
    starts = [match.start() for match in _PIN.finditer(text)]
    pins: dict[str, Pin] = {}
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        block = text[start:end]
        match = _PIN.match(block)
        if match is None:
            continue
        name = canonicalize_name(match["name"])
        hashes = tuple(sorted(_HASH.findall(block)))
        if not hashes:
            raise SbomError(f"{name} has no hash in its requirements file: run `make requirements`")
        parents = frozenset(canonicalize_name(parent) for parent in _PARENT.findall(block))
        pins[name] = Pin(name, match["version"], hashes, parents)
    return pins


def write_agent_sbom(wheel: Path, product: Product, version: str, epoch: int) -> Path:
    """Write the SBOM of the agent's wheel next to it and return its path."""
    root = _root_component(wheel, product.name, version, _wheel_url(product, version))
    bom = _document(root, epoch)
    _add_requirements(bom, [Requirer(root, product.required, frozenset())], product.pins)
    return _write(bom, wheel)


def write_library_sbom(wheel: Path, agent_wheel: Path, product: Product, version: str, epoch: int) -> Path:
    """Write the SBOM of the library's wheel next to it and return its path.

    The lab needs the agent of the same version: an optional component with the hash of ``agent_wheel``.
    """
    root = _root_component(wheel, product.name, version, _wheel_url(product, version))
    bom = _document(root, epoch)
    needed = _built_wheel(agent_wheel, agent(), version, ComponentScope.OPTIONAL)
    bom.components.add(needed)
    requirers = [
        Requirer(root, product.required, product.optional, (needed,)),
        Requirer(needed, frozenset(), agent().required),
    ]
    _add_requirements(bom, requirers, product.pins)
    return _write(bom, wheel)


def write_collection_sbom(
    artifact: Path, wheel: Path, agent_wheel: Path, product: Product, version: str, epoch: int
) -> Path:
    """Write the SBOM of the collection's archive next to it and return its path.

    The collection needs the library of its version: a component with the hash of ``wheel``. The role ``agent`` installs
    the agent, an optional component with the hash of ``agent_wheel``.
    """
    root = _root_component(artifact, "activemq.fleet", version, PackageURL("generic", None, "activemq.fleet", version))
    bom = _document(root, epoch)
    needed = _built_wheel(wheel, product, version, ComponentScope.REQUIRED)
    optional = _built_wheel(agent_wheel, agent(), version, ComponentScope.OPTIONAL)
    bom.components.update([needed, optional])
    requirers = [
        Requirer(root, frozenset(), frozenset(), (needed, optional)),
        Requirer(needed, product.required, frozenset()),
        Requirer(optional, frozenset(), agent().required),
    ]
    _add_requirements(bom, requirers, product.pins)
    return _write(bom, artifact)


def _product(metadata: Path, requirements: Path) -> Product:
    project = tomllib.loads(metadata.read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()
    required = _names(project["dependencies"])
    optional = _names(text for texts in extras for text in texts)
    pins = read_pins(requirements.read_text("utf-8"))
    missing = sorted((required | optional) - pins.keys())
    if missing:
        raise SbomError(f"{requirements.name} does not pin {', '.join(missing)}: run `make requirements`")
    return Product(project["name"], required, optional, pins)


def _names(requirements: Iterable[str]) -> frozenset[str]:
    return frozenset(canonicalize_name(Requirement(text).name) for text in requirements)


def _closure(names: frozenset[str], pins: Mapping[str, Pin]) -> frozenset[str]:
    """Return the packages and all packages that they require, directly or not."""
    reached = names
    while True:
        wider = reached | {pin.name for pin in pins.values() if pin.parents & reached}
        if wider == reached:
            return reached
        reached = wider


def _root_component(artifact: Path, name: str, version: str, url: PackageURL) -> Component:
    return Component(
        type=ComponentType.APPLICATION,
        name=name,
        version=version,
        purl=url,
        bom_ref=str(url),
        hashes=[_hash_of(artifact)],
    )


def _wheel_url(product: Product, version: str) -> PackageURL:
    return PackageURL("pypi", None, product.name, version)


def _built_wheel(wheel: Path, product: Product, version: str, scope: ComponentScope) -> Component:
    url = _wheel_url(product, version)
    return Component(
        type=ComponentType.LIBRARY,
        name=product.name,
        version=version,
        purl=url,
        bom_ref=str(url),
        scope=scope,
        hashes=[_hash_of(wheel)],
    )


def _hash_of(file: Path) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(file.read_bytes()).hexdigest())


def _document(root: Component, epoch: int) -> Bom:
    # The schema requires a UUID as serial number. This one depends on the artifact only.
    return Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, str(root.purl)),
        metadata=BomMetaData(component=root, timestamp=datetime.fromtimestamp(epoch, UTC)),
    )


def _add_requirements(bom: Bom, requirers: Iterable[Requirer], pins: Mapping[str, Pin]) -> None:
    """Add the packages that the requirers need, directly or not, and the packages that require each of them."""
    requirers = tuple(requirers)
    required = frozenset[str]().union(*(requirer.required for requirer in requirers))
    optional = frozenset[str]().union(*(requirer.optional for requirer in requirers))
    if missing := sorted((required | optional) - pins.keys()):
        raise SbomError(f"requirements/pipeline.txt does not pin {', '.join(missing)}: run `make requirements`")
    always = _closure(required, pins)
    components = {
        name: _pinned_component(pins[name], optional=name not in always)
        for name in sorted(_closure(required | optional, pins))
    }
    bom.components.update(components.values())
    for requirer in requirers:
        names = sorted(requirer.required | requirer.optional)
        bom.register_dependency(requirer.component, [*requirer.built, *(components[name] for name in names)])
    for name, component in components.items():
        bom.register_dependency(component, [child for key, child in components.items() if name in pins[key].parents])


def _pinned_component(pin: Pin, *, optional: bool) -> Component:
    url = PackageURL("pypi", None, pin.name, pin.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        purl=url,
        bom_ref=str(url),
        scope=ComponentScope.OPTIONAL if optional else ComponentScope.REQUIRED,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in pin.hashes],
    )


def _write(bom: Bom, artifact: Path) -> Path:
    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise SbomError(f"the SBOM of {artifact.name} does not match the schema of CycloneDX 1.6: {problem!r}")
    path = artifact.with_name(artifact.name + SUFFIX)
    path.write_text(text, encoding="utf-8")
    return path
