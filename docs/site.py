"""What mkdocs does beside its own: README is the home page, and a file outside docs/ that a page
links to is a page of the site as well. So links are the same on a code host and in the site."""

import json
import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\(\s*)([^)\s:#]+)(#[^)\s]*)?(\s*\))")
WRITTEN = (".md", ".ipynb")
"""Files that are prose, whose links are followed."""
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash", ".cff": "yaml"}


def on_config(config: MkDocsConfig) -> None:
    config.mdx_configs["toc"]["slugify"] = anchor


def anchor(heading: str, separator: str) -> str:
    """The anchor of a heading on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds README, and what pages link to outside docs/."""
    waiting = ["README.md", *(source(file.src_uri) for file in files.documentation_pages())]
    known = {source(file.src_uri) for file in files}
    while waiting:
        path = waiting.pop()
        if path not in known:
            known.add(path)
            files.append(File.generated(config, place(path), content=content(path)))
        if path.endswith(WRITTEN):
            linked = (target(path, match[2]) for match in LINK.finditer(content(path)))
            waiting += {each for each in linked if (ROOT / each).is_file()} - known


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A page whose links lead to the pages of the site."""
    path = source(page.file.src_uri)

    def led(match: re.Match[str]) -> str:
        linked = target(path, match[2])
        if not (ROOT / linked).is_file():
            return match[0]
        link = posixpath.relpath(place(linked), PurePosixPath(page.file.src_uri).parent)
        return f"{match[1]}{link}{match[3] or ''}{match[4]}"

    return LINK.sub(led, markdown) if path.endswith(WRITTEN) else markdown


def place(path: str) -> str:
    """Where a file of the repository is in the site."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if path.endswith(".md") else f"files/{path}.md"


def source(uri: str) -> str:
    """The file of the repository that is there in the site."""
    if uri == "index.md":
        return "README.md"
    if not uri.startswith("files/"):
        return f"docs/{uri}"
    path = uri.removeprefix("files/")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def target(path: str, link: str) -> str:
    """The file of the repository that a page's link leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def content(path: str) -> str:
    """A file as a page, which the search finds if it is prose."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".md"):
        return text
    if path.endswith(".ipynb"):
        return "\n\n".join(cell(each) for each in json.loads(text)["cells"])
    language = LANGUAGES.get(PurePosixPath(path).suffix, "")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{text}````\n"


def cell(of: dict[str, Any]) -> str:
    """A cell of a notebook as Markdown."""
    text = "".join(of["source"])
    return text if of["cell_type"] == "markdown" else f"````python\n{text}\n````"
