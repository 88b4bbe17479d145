"""The page's style: light and dark, phone and print; no address of anything outside the page."""

_LIGHT = ("#0969a8", "#b35309", "#1a7f4b", "#a3267f", "#5b5fc7", "#8a6d00", "#b42318", "#4b5563")
_DARK = ("#5cb8f5", "#f59e4c", "#4cc38a", "#f08bd0", "#a5a8ff", "#e0c341", "#ff8a80", "#b6bfcc")


def _hues(colors: tuple[str, ...]) -> str:
    return " ".join(f"--c{index}: {color};" for index, color in enumerate(colors))


_CLASSES = "\n".join(
    f".fill{index} {{ fill: var(--c{index}); background: var(--c{index}); }}"
    f"\n.line{index} {{ stroke: var(--c{index}); }}"
    for index in range(len(_LIGHT))
)
_PAPER = (
    f"--ink: #1b1f24; --soft: #57606a; --paper: #fff; --card: #f6f8fa; --rule: #d0d7de; --bad: #b42318; {_hues(_LIGHT)}"
)
_NIGHT = (
    "--ink: #e6e9ed; --soft: #a3adb8; --paper: #14181d; --card: #1c2128; --rule: #3b434c; --bad: #ff8a80; "
    f"{_hues(_DARK)}"
)
_CHARTS = """
.grid { stroke: var(--rule); } .whisker { stroke: var(--ink); fill: none; stroke-width: 1.3; }
.line { fill: none; stroke-width: 1.8; } .bound { fill: none; stroke-width: 1.3; } .zero { stroke: var(--ink); }
.faint { opacity: .35; stroke-width: 1; } .dashed { stroke-dasharray: 5 3; }
""".strip()

# Two covers that move with the table and two shadows that do not: a shadow shows where there is more to see.
SCROLL_HINT = (
    "--under: var(--paper, Canvas); "
    "background: linear-gradient(to right, var(--under) 40%, transparent) left / 3rem 100%, "
    "linear-gradient(to left, var(--under) 40%, transparent) right / 3rem 100%, "
    "linear-gradient(to right, #8889, transparent) left / .9rem 100%, "
    "linear-gradient(to left, #8889, transparent) right / .9rem 100%; "
    "background-repeat: no-repeat; background-attachment: local, local, scroll, scroll;"
)

STYLE = f"""
:root {{ color-scheme: light dark; {_PAPER} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_NIGHT} }} }}
* {{ box-sizing: border-box; }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 84rem; padding: 1rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.4rem; line-height: 1.25; margin: .5rem 0; }}
h2 {{ font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--rule); }}
h3 {{ font-size: 1rem; margin: 1rem 0 .3rem; }}
a {{ color: var(--c0); }}
nav {{ display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin-bottom: 1rem; }}
.facts, .below, .note {{ color: var(--soft); }}
.below, .note {{ max-width: 60rem; font-size: .9rem; }}
.missing {{ border-left: 4px solid var(--bad); background: var(--card); padding: .5rem .8rem; }}
.missing ul {{ margin: .3rem 0 0; padding-left: 1.2rem; }}
.scroll {{ overflow-x: auto; max-width: 100%; overflow-wrap: normal; {SCROLL_HINT} }}
figure .scroll {{ --under: var(--card); }}
.scroll:focus-visible, summary:focus-visible, a:focus-visible {{ outline: 2px solid var(--c0); outline-offset: 2px; }}
table {{ border-collapse: collapse; border-block: 2px solid; font-variant-numeric: tabular-nums; font-size: .9rem; }}
th, td {{ padding: .2rem .6rem; text-align: right; white-space: nowrap; font-weight: normal; }}
thead th {{ text-align: center; font-weight: 600; }}
thead th.span {{ border-bottom: 1px solid; }}
th.label, td.text {{ text-align: left; vertical-align: top; }}
td.long {{ white-space: normal; overflow-wrap: anywhere; text-align: left; min-width: 12rem; max-width: 30rem; }}
tbody tr:first-child > *, tbody tr.rule > * {{ border-top: 1px solid; }}
.stick tbody th.label {{ position: sticky; left: 0; background: var(--paper); }}
figure .stick tbody th.label {{ background: var(--card); }}
td > i {{ display: inline-block; max-width: 11rem; white-space: normal; }}
td i, small {{ color: var(--soft); }} small {{ font-size: .85em; }} sup {{ line-height: 0; }}
.charts {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1rem; }}
figure {{ margin: 0; padding: .6rem; background: var(--card); border-radius: 6px; min-width: 0; break-inside: avoid; }}
.drawings {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }}
.drawings svg {{ max-width: 34rem; background: #fff; border-radius: 4px; }}
figcaption {{ font-weight: 600; font-size: .9rem; margin-bottom: .3rem; }}
svg {{ display: block; width: 100%; height: auto; max-width: 30rem; }}
svg text {{ font: 11px system-ui, sans-serif; fill: var(--ink); }} svg .tick {{ fill: var(--soft); }}
{_CHARTS}
.legend {{ display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; margin: .3rem 0 .6rem; list-style: none; }}
.legend span {{ display: inline-block; width: 1.4rem; height: .55rem; margin-right: .4rem; border-radius: 2px; }}
.legend .striped {{ background-image: linear-gradient(90deg, transparent 60%, var(--paper) 60%);
  background-size: .5rem; }}
details {{ margin: .4rem 0; }} summary {{ cursor: pointer; color: var(--soft); font-size: .9rem; }}
pre {{ overflow-x: auto; background: var(--card); padding: .6rem; font-size: .8rem; max-width: 100%; }}
{_CLASSES}
@page {{ size: A4 landscape; margin: 12mm; }}
@media print {{
  :root {{ color-scheme: light; {_PAPER} }}
  body {{ max-width: none; padding: 0; font-size: 10pt; }} nav {{ display: none; }}
  .scroll {{ overflow: visible; }} table {{ font-size: 7.5pt; }} th, td {{ padding: .1rem .35rem; }}
  td {{ white-space: normal; }} tr, figure {{ break-inside: avoid; }} h2, h3, .legend, .note {{ break-after: avoid; }}
  .charts {{ grid-template-columns: repeat(3, 1fr); }} pre {{ white-space: pre-wrap; }}
  rect, circle, .legend span {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
  .drawings {{ display: block; }} .drawings svg {{ max-height: 98mm; }}
  .drawings figure {{ display: inline-block; width: 48%; box-sizing: border-box; vertical-align: top;
    margin: 0 1% 1rem 0; }}
  .drawings p {{ font-size: 8pt; line-height: 1.3; }} .drawings path {{ print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }}
  figure details, .configs {{ display: none; }}
}}
"""

CHART_STYLE = f"""
svg {{ {_PAPER} }}
@media (prefers-color-scheme: dark) {{ svg {{ {_NIGHT} }} }}
text {{ font: 11px system-ui, sans-serif; fill: var(--ink); }} .tick {{ fill: var(--soft); }}
.title {{ font-weight: 600; font-size: 12px; }} .paper {{ fill: var(--paper); }}
{_CHARTS}
{_CLASSES}
"""
"""Of a chart in a file of its own."""
