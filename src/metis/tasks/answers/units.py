"""Units at the end of an answer: split off, and told apart where both are well known."""

import re

_NAMES = """
mm millimeter millimeters millimetre millimetres
cm centimeter centimeters centimetre centimetres
m meter meters metre metres
km kilometer kilometers kilometre kilometres
in inch inches
ft foot feet
yd yard yards
mi mile miles
g gram grams
kg kilogram kilograms
oz ounce ounces
lb lbs pound pounds
s sec second seconds
min minute minutes
h hr hour hours
day days
week weeks
month months
year years
cent cents
dollar dollars USD
euro euros
degree degrees
radian radians
mph
"""
_UNITS = {name: line.split()[0] for line in _NAMES.strip().splitlines() for name in line.split()}
_MARKED = re.compile(
    r"(?P<number>.*[^\s\\])(?:\\[ ,;!]|~|\s)*"
    r"\\(?:text|textnormal|mathrm|mbox)\{\s*(?P<unit>[A-Za-z. ]+?)\.?\s*\}"
    r"(?:\^\{?(?P<power>\d)\}?)?",
    re.DOTALL,
)
_PLAIN = re.compile(
    r"(?P<number>.*[\d}])(?:\\[ ,;!]|~|\s)*(?P<unit>[A-Za-z]{2,})(?:\^\{?(?P<power>\d)\}?)?",
    re.DOTALL,
)
_NO_NUMBER = re.compile(r"[,(]$|\\text\{[^{}]*\}$")


def split_unit(text: str) -> tuple[str, str | None]:
    """An answer without the unit that ends it, and the well-known unit this is, if any.

    A unit in \\text{} may be anything; a plain one has to be well known.
    """
    if found := _MARKED.fullmatch(text):
        name = " ".join(found["unit"].split())
        if name.split()[0] in ("and", "or") or re.search(
            r"[,(]$|\\text\{[^{}]*\}$", found["number"]
        ):
            return text, None
        return found["number"], _known(name, found["power"])
    if (found := _PLAIN.fullmatch(text)) and found["unit"] in _UNITS:
        return found["number"], _known(found["unit"], found["power"])
    return text, None


def _known(name: str, power: str | None) -> str | None:
    dimension = power or "1"
    for word, exponent in (("square ", "2"), ("sq ", "2"), ("sq. ", "2"), ("cubic ", "3")):
        if name.startswith(word):
            name, dimension = name.removeprefix(word), exponent
    return f"{_UNITS[name]}^{dimension}" if name in _UNITS else None
