"""An SVG file made safe to stand in the page: only what draws is kept, and its ids are those of no other figure."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import escape

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_TAGS = frozenset(
    {"svg", "g", "defs", "clipPath", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "use", "text"}
    | {"tspan", "pattern", "title", "desc"}
)
"""Elements that draw. No script, no style sheet, no image, no link, no foreign content."""
_PAINT = frozenset(
    {"fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity"}
    | {"stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "clip-path", "clip-rule"}
)
_ATTRIBUTES = _PAINT | frozenset(
    {"d", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "width", "height", "points", "transform"}
    | {"viewBox", "patternUnits", "patternTransform", "patternContentUnits", "text-anchor", "preserveAspectRatio"}
)
_STYLES = _PAINT | {"text-anchor"}
"""Properties of a style attribute that are kept."""
_VALUE = re.compile(r"[-#%,.() \w+]*")
_LOCAL = re.compile(r"url\(#([\w:.-]+)\)")
_LARGEST = 20_000_000
"""Bytes of a file that is still put into the page."""


class UnsafeFigure(ValueError):
    """A file is no SVG that can be put into the page."""


def inline_svg(source: bytes, prefix: str, title: str, description: str) -> str:
    """The picture of an SVG file as HTML.

    Args:
        source: the file. It may be anybody's: it is parsed, and what is not known to draw is left out.
        prefix: put before every id, so that two figures of one page do not take each other's parts.
        title, description: what is read aloud instead.

    Raises:
        UnsafeFigure: it is no SVG, too large, or declares entities.
    """
    if len(source) > _LARGEST:
        raise UnsafeFigure(f"it has {len(source):,} bytes; up to {_LARGEST:,} are put into the page")
    if b"<!ENTITY" in source.upper():
        raise UnsafeFigure("it declares entities")
    try:
        root = ET.fromstring(source)  # noqa: S314
    except ET.ParseError as error:
        raise UnsafeFigure(f"it is no SVG: {error}") from None
    box = _numbers(root.get("viewBox", ""))
    if root.tag != f"{_SVG}svg" or len(box) != 4:
        raise UnsafeFigure("it is no SVG with a viewBox")
    inner = "".join(_element(child, prefix) for child in root)
    # matplotlib's style sheet says this of every element; in a page it would be said of the whole page.
    return (
        f'<svg class="drawn" role="img" viewBox="{" ".join(box)}" '
        f'style="stroke-linejoin:round;stroke-linecap:butt" aria-labelledby="{prefix}-t {prefix}-d">'
        f'<title id="{prefix}-t">{escape(title)}</title><desc id="{prefix}-d">{escape(description)}</desc>{inner}</svg>'
    )


def _element(node: ET.Element, prefix: str) -> str:
    name = node.tag.removeprefix(_SVG) if isinstance(node.tag, str) else ""
    if name not in _TAGS or node.tag == name:
        return ""
    attributes = "".join(f' {key}="{escape(value)}"' for key, value in _attributes(node, prefix))
    text = escape(node.text or "") if name in ("text", "tspan", "title", "desc") else ""
    return f"<{name}{attributes}>{text}{''.join(_element(child, prefix) for child in node)}</{name}>"


def _attributes(node: ET.Element, prefix: str) -> list[tuple[str, str]]:
    kept: list[tuple[str, str]] = []
    for key, value in node.attrib.items():
        if key == "id":
            kept.append(("id", f"{prefix}-{value}"))
        elif key in ("href", _LINK):
            if value.startswith("#"):  # another part of this figure; an address of elsewhere is left out
                kept.append(("href", f"#{prefix}-{value[1:]}"))
        elif key == "style":
            if style := _style(value, prefix):
                kept.append(("style", style))
        elif key in _ATTRIBUTES and (own := _safe(value, prefix)) is not None:
            kept.append((key, own))
    return kept


def _style(value: str, prefix: str) -> str:
    kept = []
    for declaration in value.split(";"):
        key, _, said = declaration.partition(":")
        own = _safe(said.strip(), prefix)
        if key.strip() in _STYLES and own is not None:
            kept.append(f"{key.strip()}:{own}")
    return ";".join(kept)


def _safe(value: str, prefix: str) -> str | None:
    """A value with references to this figure's own parts; ``None`` where it is anything but numbers and plain words."""
    if local := _LOCAL.fullmatch(value):
        return f"url(#{prefix}-{local[1]})"
    return value if _VALUE.fullmatch(value.replace("\n", " ")) and "url" not in value.lower() else None


def _numbers(text: str) -> list[str]:
    return re.findall(r"-?\d+(?:\.\d+)?", text)
