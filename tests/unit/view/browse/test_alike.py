"""The page of `metis view` has the colours of reports, and their questions."""

import re

from metis.diagnosis.words import QUESTIONS
from metis.report.style import STYLE
from metis.view.browse import assets


def test_the_page_has_the_colours_of_reports():
    rule = re.compile(r"(--[\w-]+): (#\w{6});")
    light, dark = (dict(rule.findall(part)) for part in STYLE.split("prefers-color-scheme: dark"))
    page = assets.read("colours.css").decode()
    pairs = re.findall(r"(--[\w-]+): light-dark\((#\w{6}), (#\w{6})\);", page)
    shared = {name: (on_light, on_dark) for name, on_light, on_dark in pairs if name in light}
    assert len(shared) >= 10
    assert shared == {name: (light[name], dark[name]) for name in shared}


def test_the_page_asks_the_questions_of_reports():
    page = assets.read("overview.js").decode()
    listed = re.search(r"QUESTIONS = {([^}]*)}", page)[1]
    assert dict(re.findall(r'(\w+): "([^"]*)"', listed)) == QUESTIONS
