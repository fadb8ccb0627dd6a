"""Which links of a page lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def broken_links(page: Path, *, root: Path) -> list[str]:
    """Complaints about links to files, folders and headings that do not exist.

    Addresses elsewhere are not visited: a check must not depend on somebody else's server.
    """
    complaints = []
    for target in LINK.findall(_prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.is_relative_to(root) or not file.exists():
            complaints.append(f"the link to {target} leads nowhere")
        elif heading and heading not in headings_of(file):
            complaints.append(f"the link to {target} names no heading there")
    return complaints


def headings_of(page: Path) -> set[str]:
    """The anchors that a forge gives the headings of a page."""
    titles = re.findall(r"^#+ +(.+?) *$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _prose(page: Path) -> str:
    return CODE.sub("", page.read_text())
