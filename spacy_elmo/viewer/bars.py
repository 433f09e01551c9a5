"""Bars with their figures: what components learned, what probes found."""

from collections.abc import Sequence
from typing import Any, Optional

Section = dict[str, Any]


def mix_section(rows: Sequence[dict[str, Any]]) -> Section:
    """Make the part of a page that shows the layer mixes of components.

    rows (Sequence[dict]): What `learned_mixes` returned.
    RETURNS (dict): The section, for `make_page`.
    """
    several = {row["component"] for row in rows if row["mix"]}
    has_upstreams = len({row.get("upstream") for row in rows}) > 1
    bars = []
    for row in rows:
        name = f"{row['component']}, mix {row['mix']}" if row["component"] in several else None
        of = f" of {row['upstream']}" if has_upstreams and row.get("upstream") else ""
        name = f"{name or row['component']}{of} (gamma {row['gamma']:.3f})"
        bars += [
            _bar([name, f"layer {layer}"], weight, f"{weight:.3f}")
            for layer, weight in enumerate(row["weights"])
        ]
    note = "The weights of a component sum to 1; gamma scales the mix."
    note = note if rows else "No component mixes ELMo layers."
    return _section("What the components learned", ["component", "layer"], "weight", bars, note)


def probe_section(report: dict[str, Any], score: Optional[str] = None) -> Section:
    """Make the part of a page that shows what probes found.

    report (dict): A `Report`, as a dict.
    score (Optional[str]): Which of its scores; None is the first.
    RETURNS (dict): The section, for `make_page`.
    """
    score = score or next(iter(report["rows"][0]["scores"]))
    bars = []
    for row in report["rows"]:
        value = row["scores"][score]
        bars.append(_bar([row["method"], row["input"] or "-"], value, f"{value:.2%}"))
    note = (
        f"{report['n_labels']:,} labels; trained on {report['n_train']:,}, tested on "
        f"{report['n_test']:,}, of which {report['n_unseen']:,} have a label that training did "
        f"not have."
    )
    heading = f"What the layers know of {report['task']}"
    return _section(heading, ["predictor", "reads"], score, bars, note)


def _section(
    heading: str, columns: list[str], measure: str, rows: list[Section], note: str
) -> Section:
    return {
        "type": "bars",
        "heading": heading,
        "columns": columns,
        "measure": measure,
        "rows": rows,
        "note": note,
    }


def _bar(names: list[str], share: float, figure: str) -> Section:
    return {"names": names, "share": min(1.0, max(0.0, share)), "figure": figure}
