"""Time of imports, and the packages that they import: `python benchmarks/imports.py`."""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

CASES = {
    "import spacy_elmo": ["spacy_elmo"],
    "import spacy": ["spacy"],
    "spacy and the pipe": ["spacy", "spacy_elmo.pipeline.elmo"],
    "spacy's and our commands": ["spacy.cli", "spacy_elmo.cli"],
    "spacy and read_weights": ["spacy", "spacy_elmo.weights"],
}


def measure(modules: list[str]) -> list[tuple[str, float]]:
    """Import modules in a new process.

    modules (List[str]): Names of the modules, in order.
    RETURNS (List[Tuple[str, float]]): Name of every imported module, and its own time in
        milliseconds.
    """
    start = "import sys; print('--start--', file=sys.stderr)"
    code = "; ".join([start, *(f"import {name}" for name in modules)])
    command = [sys.executable, "-X", "importtime", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = run.stderr.partition("--start--")[2].splitlines()
    rows = [line.removeprefix("import time:").split("|") for line in lines if "|" in line]
    return [(name.strip(), int(own) / 1000) for own, _, name in rows]


def report(rounds: int) -> dict[str, Any]:
    """Measure all cases: time, number of modules, and the slowest packages."""
    figures = {}
    for case, modules in CASES.items():
        runs = [measure(modules) for _ in range(rounds)]
        totals = [sum(own for _, own in run) for run in runs]
        packages: dict[str, float] = {}
        for name, own in runs[-1]:
            package = name.partition(".")[0]
            packages[package] = packages.get(package, 0.0) + own
        others = {name for name in packages if name not in sys.stdlib_module_names}
        slowest = sorted(packages.items(), key=lambda item: -item[1])[:5]
        figures[case] = {
            "milliseconds": statistics.median(totals),
            "least": min(totals),
            "modules": len(runs[-1]),
            "packages": sorted(others),
            "slowest": {name: round(own, 1) for name, own in slowest},
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    figures = report(args.rounds)
    for case, row in figures.items():
        print(
            f"{case:26} {row['milliseconds']:8.1f} ms (least {row['least']:.1f}), "
            f"{row['modules']} modules, {len(row['packages'])} packages"
        )
        print(" " * 26, ", ".join(f"{name} {own} ms" for name, own in row["slowest"].items()))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n", "utf8")


if __name__ == "__main__":
    main()
