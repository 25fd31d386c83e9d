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
percent
"""
NAMES = {name: line.split()[0] for line in _NAMES.strip().splitlines() for name in line.split()}
_SPEEDS = {"mph": "mi/h", "kph": "km/h"}
_SIZES = {"square ": "2", "sq ": "2", "sq. ": "2", "cubic ": "3"}
_BLANKS = r"(?:\\[ ,;!]|~|\s)*+"
_POWER = r"(?:\^\{?(?P<power>\d)\}?)?"
_MARKED = re.compile(
    rf"(?P<number>.*[^\s\\,;!~]){_BLANKS}"
    rf"\\(?:text|textnormal|mathrm|mbox)\{{(?P<unit>[A-Za-z./\s]*+)\}}{_POWER}",
    re.DOTALL,
)
_PLAIN = re.compile(
    rf"(?P<number>.*[\d}}]){_BLANKS}(?P<unit>[A-Za-z]{{2,}}+(?:/[A-Za-z]++)?){_POWER}",
    re.DOTALL,
)
_SIGN = re.compile(r"^\\\$|\\?%$|\^(?:\\circ|\{\\circ\})$")
_NO_NUMBER = re.compile(r"[,(=]$|\\text\{[^{}]*\}$")
_NO_UNIT = {"and", "or", "not", "maybe"}


def split_unit(text: str) -> tuple[str, str | None]:
    """An answer without the unit that ends it, and the well-known unit this is, if any.

    A unit in \\text{} may be anything; a plain one has to be well known.
    """
    if match := _MARKED.fullmatch(text):
        words = match["unit"].rstrip(". ").split()
        no_unit = _NO_UNIT.intersection(words[:1]) or "base" in words
        if no_unit or _NO_NUMBER.search(match["number"]):
            return text, None
        return match["number"], _canonical_unit(" ".join(words), match["power"] or "1")
    if match := _PLAIN.fullmatch(text):
        unit_name = _canonical_unit(match["unit"], match["power"] or "1")
        return (match["number"], unit_name) if unit_name else (text, None)
    return text, None


def unit(text: str) -> str | None:
    """The well-known unit of an answer, be it a sign or a name."""
    bare = text.strip("$ \n").rstrip(".,; ")
    if bare.startswith("\\$"):
        return _canonical_unit("dollar", "1")
    if bare.endswith("%"):
        return _canonical_unit("percent", "1")
    if bare.endswith(("^\\circ", "^{\\circ}")):
        return _canonical_unit("degree", "1")
    return split_unit(bare)[1]


def measured(text: str) -> tuple[str, str]:
    """An answer without its unit, and the unit: in one writing where it is well known."""
    bare = text.strip("$ \n").rstrip(".,; ")
    before, known = split_unit(bare)
    known = known or unit(bare)
    if before == bare and known:
        before = _SIGN.sub("", bare)
    return before, known or " ".join(bare[len(before) :].split())


def _canonical_unit(name: str, power: str) -> str | None:
    """One way to write a well-known unit: cm^2 for square centimeters, m^1/s^2 for m/s to the 2."""
    over, slash, under = _SPEEDS.get(name, name).replace(" per ", "/").partition("/")
    parts = [_measure(over, "1"), _measure(under, power)] if slash else [_measure(over, power)]
    return None if None in parts else "/".join(filter(None, parts))


def _measure(name: str, power: str) -> str | None:
    name = name.strip()
    for word, exponent in _SIZES.items():
        if name.startswith(word):
            name, power = name.removeprefix(word), exponent
    return f"{NAMES[name]}^{power}" if name in NAMES else None
