"""What is hidden in the haystacks, in our own words: names, facts, and the questions that ask for them."""

from __future__ import annotations

FIRST_NAMES = (
    "Ada", "Bruno", "Carla", "Dario", "Elin", "Fabian", "Greta", "Hugo", "Irena", "Jonas", "Karla", "Leon",
    "Mira", "Nils", "Olga", "Pavel", "Rosa", "Samuel", "Tilda", "Urban", "Vera", "Walter", "Yara", "Zeno",
    "Amelie", "Boris", "Clara", "Dmitri", "Esther", "Florian", "Gudrun", "Henrik", "Ida", "Jakob",
)  # fmt: skip
LAST_NAMES = (
    "Abbott", "Brandt", "Castell", "Dorsey", "Ekdahl", "Ferrant", "Gruber", "Holm", "Ilves", "Jansson", "Kessler",
    "Lindqvist", "Marlow", "Norden", "Oakes", "Palmer", "Quist", "Rowan", "Sandoval", "Thorne", "Ullman",
    "Vasquez", "Weller", "Yates", "Zander", "Ashby", "Bergman", "Colville",
)  # fmt: skip

PASSKEY = "The passkey of {name} is {key}. Do not forget it: {key} is what {name} types at the door."
PASSKEY_QUESTION = "What is the passkey of {name}?"

FACTS = (
    ("{name} keeps a {colour} {thing} in the {place}.", "What does {name} keep in the {place}?"),
    ("Every spring {name} paints the {thing} in the {place} {colour}.", "Which thing does {name} paint every spring?"),
    ("The only {colour} {thing} in the {place} belongs to {name}.", "What in the {place} belongs to {name}?"),
    ("On Sundays {name} polishes a {colour} {thing} behind the {place}.", "What does {name} polish on Sundays?"),
    ("{name} won a {colour} {thing} at the fair near the {place}.", "What did {name} win at the fair?"),
    (
        "A {colour} {thing} is what {name} always leaves at the {place}.",
        "What does {name} always leave at the {place}?",
    ),
)
"""A sentence, and the question that it answers."""
COLOURS = ("amber", "azure", "crimson", "emerald", "golden", "ivory", "lilac", "maroon", "ochre", "scarlet", "silver")
THINGS = (
    "accordion",
    "anchor",
    "bicycle",
    "cello",
    "compass",
    "globe",
    "kite",
    "lantern",
    "loom",
    "rowboat",
    "sundial",
)
PLACES = (
    "attic",
    "bakery",
    "boathouse",
    "chapel",
    "cellar",
    "courtyard",
    "greenhouse",
    "harbour",
    "library",
    "orchard",
)
