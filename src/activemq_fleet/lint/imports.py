"""Follow the imports of an activemq.xml to the files next to it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, once_per_document
from activemq_fleet.lint.locations import is_below_directory_of_referring_file, path_relative_to_referring_file

_MAX_IMPORTED_FILES = 50


@once_per_document
def import_elements_with_paths(document: Document) -> list[tuple[Element, str]]:
    """Return the ``<import>`` elements of an XML file, each with the path of the imported file.

    The path is relative to the directory of the activemq.xml. Spring resolves a relative resource against the directory
    of the importing file.
    """
    directory = posixpath.dirname(document.file)
    imports = []
    for node in document.elements_with_tag_name("import"):
        resource = node.get("resource").strip()
        if resource:
            path = path_relative_to_referring_file(resource)
            is_local = is_below_directory_of_referring_file(resource) and "$" not in resource and ":" not in resource
            imports.append((node, posixpath.normpath(posixpath.join(directory, path)) if is_local else path))
    return imports


def imported_paths_and_documents(document: Document) -> Iterator[tuple[str, Document | None]]:
    """Yield (path, parsed content) of each file that an activemq.xml imports, directly or indirectly.

    Only files below its directory are returned, at most 50. The content is None for a file that is not XML.
    """
    pending, seen = [document], {document.file}
    while pending and len(seen) <= _MAX_IMPORTED_FILES:
        for _, name in import_elements_with_paths(pending.pop()):
            if name in seen or name not in document.other_files:
                continue
            seen.add(name)
            imported_document = document.parsed_sibling_file(name)
            if imported_document is not None:
                pending.append(imported_document)
            yield name, imported_document


def import_elements_with_outside_paths(document: Document) -> Iterator[tuple[Element, str]]:
    """Yield (import element, file name) for each import of a file outside the directory of an activemq.xml.

    The imports of the imported files are included.
    """
    for importing_document in (
        document,
        *(importing_document for _, importing_document in imported_paths_and_documents(document) if importing_document),
    ):
        for node, name in import_elements_with_paths(importing_document):
            if name not in document.other_files:
                yield node, name
