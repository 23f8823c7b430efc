"""Derives the blocking client from the asyncio one: the same code without `async` and `await`."""

from __future__ import annotations

import io
import itertools
import tokenize
from pathlib import Path

HEADER = "# Generated from ../_async by `generate`. Do not edit.\n"

# Names that the two clients call differently. Every other name is the same.
NAMES = {
    "AsyncClient": "Client",
    "AsyncGenerator": "Generator",
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclosing": "closing",
    "aio": "blocking",
    "anext": "next",
    "asyncio": "blocking",
}


def blocking(source: str) -> str:
    """The text of a module without its asynchronous parts."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    lines = source.splitlines(keepends=True)
    edits: list[tuple[int, int, int, str]] = []
    for token, follower in itertools.pairwise(tokens):
        (row, begin), (_, end) = token.start, token.end
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            edits.append((row, begin, follower.start[1], ""))
        elif token.type == tokenize.NAME and token.string in NAMES:
            edits.append((row, begin, end, NAMES[token.string]))
        elif token.type in (tokenize.STRING, tokenize.COMMENT) and row == token.end[0]:
            edits.append((row, begin, end, prose(token.string)))
    for row, begin, end, text in reversed(edits):
        line = lines[row - 1]
        lines[row - 1] = line[:begin] + text + line[end:]
    return HEADER + "".join(lines)


def prose(text: str) -> str:
    """A comment or a text of one line, about the blocking client."""
    for old, new in (
        ("AsyncClient", "Client"),
        ("asyncio", "blocking"),
        ("`async with`", "`with`"),
        ("`async for`", "`for`"),
    ):
        text = text.replace(old, new)
    return text


def convert(source: Path, target: Path) -> None:
    """Writes the blocking version of each module of a folder."""
    target.mkdir(parents=True)
    for path in sorted(source.glob("*.py")):
        (target / path.name).write_text(blocking(path.read_text(encoding="utf-8")), encoding="utf-8")
