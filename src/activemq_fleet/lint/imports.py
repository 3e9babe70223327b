"""Follow the imports of an activemq.xml to the files next to it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, once_per_document
from activemq_fleet.lint.locations import is_below_directory_of_referring_file, path_relative_to_referring_file

_MOST = 50


@once_per_document
def import_elements_with_paths(document: Document) -> list[tuple[Element, str]]:
    """Return the ``<import>`` elements of an XML file, each with the path of the imported file.

    The path is relative to the directory of the activemq.xml. Spring resolves a relative resource against the directory
    of the importing file.
    """
    directory = posixpath.dirname(document.file)
    imports = []
    for node in document.elements_with_given_names("import"):
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
    waiting, seen = [document], {document.file}
    while waiting and len(seen) <= _MOST:
        for _, name in import_elements_with_paths(waiting.pop()):
            if name in seen or name not in document.other_files:
                continue
            seen.add(name)
            page = document.parsed_sibling_file(name)
            if page is not None:
                waiting.append(page)
            yield name, page


def import_elements_with_outside_paths(document: Document) -> Iterator[tuple[Element, str]]:
    """Yield (import element, file name) for each import of a file outside the directory of an activemq.xml.

    The imports of the imported files are included.
    """
    for page in (document, *(page for _, page in imported_paths_and_documents(document) if page)):
        for node, name in import_elements_with_paths(page):
            if name not in document.other_files:
                yield node, name
