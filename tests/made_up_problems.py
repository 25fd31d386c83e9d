"""Twenty problems made up for the tests, from easy to less so, with their answers."""

import json
from pathlib import Path

PROBLEMS = [
    ("What is $7 + 5$?", "12"),
    ("What is $9 \\times 6$?", "54"),
    ("A baker sells 8 loaves an hour. How many does she sell in 6 hours?", "48"),
    ("Simplify $\\frac{18}{24}$.", "\\frac{3}{4}"),
    ("Solve $3x - 4 = 11$ for $x$.", "5"),
    ("What is the remainder when $100$ is divided by $7$?", "2"),
    ("How many edges does a cube have?", "12"),
    ("Write $0.375$ as a common fraction.", "\\frac{3}{8}"),
    ("A triangle has angles of $40^\\circ$ and $65^\\circ$. How many degrees is the third?", "75"),
    ("What is the sum of the first ten positive even integers?", "110"),
    ("Factor $x^2 - 9$.", "(x-3)(x+3)"),
    ("What is the area of a circle of radius $3$?", "9\\pi"),
    ("How many ways are there to seat $4$ people on $4$ chairs in a row?", "24"),
    ("What is $\\sqrt{50}$ in simplest radical form?", "5\\sqrt{2}"),
    ("Find the positive solution of $x^2 - x - 12 = 0$.", "4"),
    ("What is $2^{10} - 1$?", "1023"),
    ("Convert $1011_2$ to base ten.", "11"),
    ("For which $x$ is $2x + 1 > 7$? Answer with an interval.", "(3,\\infty)"),
    ("A car covers 150 km in 2.5 hours. How fast is it in km/h, on average?", "60"),
    ("Let $f(x) = x^3 - 2x$. What is $f(-2)$?", "-4"),
]


def write(path: Path, count: int = len(PROBLEMS)) -> Path:
    """The first problems as JSON lines."""
    rows = [{"id": f"p{i}", "problem": p, "answer": a} for i, (p, a) in enumerate(PROBLEMS)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows[:count]))
    return path
