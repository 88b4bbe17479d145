"""The page: head, contents, sections."""

from __future__ import annotations

import time

from lmk_experiments.report.analyses import analyses_part
from lmk_experiments.report.gather import Gathered
from lmk_experiments.report.parts import paragraph, text
from lmk_experiments.report.results import bars_part, curves_part, profiles_part, table_part
from lmk_experiments.report.style import STYLE
from lmk_experiments.report.work import cost_part, environment_part, missing_part, where_part

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page asks for nothing and runs nothing, even if some text of it should slip through unescaped."""


def render_page(gathered: Gathered) -> str:
    """A grid's report as one HTML page: no script, no address but links into MLflow, every text escaped."""
    record = gathered.record
    title = record.title or record.name
    parts = {
        "Results": ("table", table_part(gathered)),
        "Length and place": ("profiles", profiles_part(gathered)),
        "Analyses": ("analyses", analyses_part(gathered)),
        "Values with intervals": ("bars", bars_part(gathered)),
        "Training": ("curves", curves_part(gathered)),
        "Cost": ("cost", cost_part(gathered)),
        "What ran where": ("where", where_part(gathered)),
        "Environment": ("environment", environment_part(gathered)),
    }
    contents = "".join(f'<a href="#{place}">{text(name)}</a>' for name, (place, part) in parts.items() if part)
    done = len(gathered.cells) - len(gathered.missing)
    before = f"{len(record.pretrainings)} pre-trainings, " if record.pretrainings else ""
    figures = f"{len(record.analyses)} analyses, " if record.analyses else ""
    facts = (
        f"Grid {record.name}: {before}{len(record.trainings)} trainings, {len({row.row for row in record.rows})} rows, "
        f"{figures}{done} of {len(gathered.cells)} cells done. Written "
        f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC from the records under {gathered.root}."
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<link rel="icon" href="data:,">',
            f"<title>{text(title)}</title>",
            f"<style>{STYLE}</style></head>",
            "<body>",
            f"<header><h1>{text(title)}</h1>{paragraph(facts, 'facts')}",
            f'<nav aria-label="Contents">{contents}</nav></header>',
            "<main>",
            missing_part(gathered),
            *(part for _, part in parts.values() if part),
            "</main></body></html>",
            "",
        ]
    )
