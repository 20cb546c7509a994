"""The documentation as a site: `make docs` writes docs/_build, with a search that works offline.

Pages are read on GitHub as well, so their links are relative paths. Those that leave docs/ lead to
the repository. https://www.sphinx-doc.org, https://myst-parser.readthedocs.io
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HOME = "https://github.com/trainwright/trainwright"
_ROOT = Path(__file__).parents[1]
_LINKS = (addnodes.download_reference, addnodes.pending_xref)

project = "Trainwright"
copyright = "the Trainwright authors"  # noqa: A001 - Sphinx reads it by this name
extensions = ["myst_parser"]
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = project
html_favicon = "icon.svg"
html_copy_source = False
html_theme_options = {
    "source_repository": HOME,
    "source_branch": "main",
    "source_directory": "docs/",
}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# Each rule has a page, and all are listed on one. MyST does not know anchors that are HTML, such as
# those of fields in schema.md; tests/docs/test_site.py follows every link.
suppress_warnings = ["toc.not_included", "myst.xref_missing"]


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", _lead_to_the_repository)


def _lead_to_the_repository(app: Sphinx, document: nodes.document) -> None:
    """Links to what is not a page of the site: files outside of docs/, examples, and folders.

    MyST takes such a link for a page that is missing, or for a file to download.
    """
    folder = posixpath.dirname(f"docs/{app.env.docname}.md")
    found = document.findall(lambda node: isinstance(node, _LINKS))
    for node in list(found):
        target = str(node["reftarget"]).partition("#")[0]
        if node.get("refdomain") == "doc":  # without the ending, from the top of docs/
            path = posixpath.relpath(posixpath.join(_ROOT, "docs", f"{target}.md"), _ROOT)
        else:
            path = posixpath.normpath(posixpath.join(folder, target))
        is_page = path.startswith("docs/") and not path.startswith("docs/examples")
        if not target or is_page or not (_ROOT / path).exists():
            continue
        kind = "tree" if (_ROOT / path).is_dir() else "blob"
        link = nodes.reference("", "", refuri=f"{HOME}/{kind}/main/{path}")
        link.extend(node.children)
        node.replace_self(link)
