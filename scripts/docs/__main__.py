"""`python scripts/docs write` renews the generated parts of the documentation; `check` checks all of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from links import broken_links
from parts import PARTS, renewed
from snippets import snippets_of

ROOT = Path(__file__).resolve().parents[2]


def pages() -> list[Path]:
    """Every page a reader may open."""
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def write() -> list[str]:
    """Put the generated parts into the pages."""
    for page in pages():
        old = page.read_text()
        new = renewed(old)
        if new != old:
            page.write_text(new)
            print(f"renewed {page.relative_to(ROOT)}")
    return []


def check(*, run_snippets: bool) -> list[str]:
    """What is wrong: outdated parts, unused parts, broken links, code that does not run."""
    complaints: list[str] = []
    everything = ""
    for page in pages():
        name, text = page.relative_to(ROOT), page.read_text()
        everything += text
        if renewed(text) != text:
            complaints.append(f"{name}: its generated parts are outdated; run `make docs`")
        complaints += [f"{name}: {complaint}" for complaint in broken_links(page, root=ROOT)]
        if run_snippets:
            for snippet in snippets_of(text):
                print(f"running {name}:{snippet.line}", flush=True)
                if complaint := snippet.complaint():
                    complaints.append(f"{name}:{snippet.line}: {complaint}")
    complaints += [
        f"no page has the generated part `{part}`"
        for part in PARTS
        if f"<!-- generated: {part} -->" not in everything
    ]
    return complaints


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["write", "check"])
    parser.add_argument("--no-snippets", action="store_true", help="do not run the code")
    arguments = parser.parse_args()
    if arguments.what == "write":
        complaints = write()
    else:
        complaints = check(run_snippets=not arguments.no_snippets)
    sys.exit("\n".join(complaints) or 0)


if __name__ == "__main__":
    main()
