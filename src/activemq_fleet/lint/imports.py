"""Follow the imports of an activemq.xml to the files next to it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, once_per_document
from activemq_fleet.lint.locations import below_directory, is_relative

_MOST = 50


@once_per_document
def imports_of(document: Document) -> list[tuple[Element, str]]:
    """Return the import elements of an XML file, each with the imported file's path below the activemq.xml's directory.

    Spring resolves a relative resource against the directory of the importing file.
    """
    directory = posixpath.dirname(document.file)
    imports = []
    for node in document.elements_named("import"):
        resource = node.get("resource").strip()
        if resource:
            path = below_directory(resource)
            is_local = is_relative(resource) and "$" not in resource and ":" not in resource
            imports.append((node, posixpath.normpath(posixpath.join(directory, path)) if is_local else path))
    return imports


def imported_files(document: Document) -> Iterator[tuple[str, Document | None]]:
    """Yield the path of each file next to an activemq.xml that it imports, directly or through another one.

    With it the parsed file, or None for one that is not XML. The first 50 are followed.
    """
    waiting, seen = [document], {document.file}
    while waiting and len(seen) <= _MOST:
        for _, name in imports_of(waiting.pop()):
            if name in seen or name not in document.other_files:
                continue
            seen.add(name)
            page = document.other_document(name)
            if page is not None:
                waiting.append(page)
            yield name, page


def imports_outside_directory(document: Document) -> Iterator[tuple[Element, str]]:
    """Yield each import of a file that is not in the directory of the document.

    The imports of the imported files are included. Yields the import element and the name of the file.
    """
    for page in (document, *(page for _, page in imported_files(document) if page)):
        for node, name in imports_of(page):
            if name not in document.other_files:
                yield node, name
