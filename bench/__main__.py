"""`python -m bench`: measures this project beside others, in turns, and says which goals are met."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .contest import Contest
from .machine import Watch
from .report import as_json, as_text
from .rows import ROWS


def main() -> None:
    """Measure, print the standings, write them as JSON if asked."""
    options = _options()
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    terminal = sys.stderr.isatty()

    def told(text: str) -> None:
        if terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    watch = Watch()
    contest = Contest(
        ours=Path(sys.executable),
        peers=options.peers,
        rounds=options.rounds,
        seconds=options.seconds,
        limit_s=options.limit,
        told=told,
    )
    watch.look()
    if watch.warning:
        print(f"WARNING: {watch.warning}", file=sys.stderr)
    standings, about = contest.run(rows, watch)
    told("")
    print("\n".join(as_text(standings, watch)))
    if options.json:
        document = as_json(standings, watch, about=about, seconds=options.seconds)
        options.json.write_text(json.dumps(document, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--peers",
        type=Path,
        default=Path(".venv-bench/bin/python"),
        metavar="PYTHON",
        help="the interpreter that has Ray and SWE-ReX (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="how long to measure each time (%(default)s)"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=420.0,
        metavar="SECONDS",
        help="begin no round later than this (%(default)s)",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[row.name for row in ROWS],
        metavar="ROW",
        help=f"measure this row; may be repeated; all by default: {', '.join(r.name for r in ROWS)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the standings as JSON")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    return options


if __name__ == "__main__":
    main()
