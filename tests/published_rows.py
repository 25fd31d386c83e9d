"""Rows of published sets, made up in their schemas."""

import base64
import json
import pickle
import zlib

HUMANEVAL = {
    "task_id": "HumanEval/7",
    "prompt": (
        "from math import floor\n\n\ndef twice(x: int) -> int:\n    return 2 * x\n\n\n"
        'def half(x: float) -> int:\n    """ Half of x, rounded down.\n    >>> half(5)\n    2\n'
        '    """\n'
    ),
    "entry_point": "half",
    "canonical_solution": "    return floor(x / 2)\n",
    "test": (
        "METADATA = {'author': 'x'}\n\n\ndef check(candidate):\n    import random\n    print\n"
        "    assert candidate(5) == 2, 'odd'\n    assert candidate(-1) == -1\n"
        "    for _ in range(3):\n        x = random.randint(0, 9)\n"
        "        assert candidate(twice(x)) == x\n    assert True\n"
    ),
}
MBPP = {
    "task_id": 12,
    "text": "Write a function to add two numbers.",
    "code": "def add(a, b):\r\n    return a + b",
    "test_setup_code": "",
    "test_list": ["assert add(1, 2) == 3", "assert add((1,), (2,)) == (1, 2)"],
    "challenge_test_list": [],
}
BIGCODEBENCH = {
    "task_id": "BigCodeBench/3",
    "complete_prompt": (
        "import random\nimport pandas as pd\n\nSIDES = 6\n\n"
        'def task_func(n):\n    """Throw n dice."""\n'
    ),
    "canonical_solution": "    return [random.randint(1, SIDES) for _ in range(n)]\n",
    "entry_point": "task_func",
    "test": (
        "import unittest\nfrom unittest.mock import patch\n\n\n"
        "class TestCases(unittest.TestCase):\n"
        "    def setUp(self):\n        self.count = 3\n\n"
        "    def test_length(self):\n"
        "        self.assertEqual(len(task_func(self.count)), 3)\n\n"
        "    @patch('random.randint', return_value=9)\n"
        "    def test_patched(self, _):\n        self.assertEqual(task_func(1), [9])\n"
    ),
    "libs": "['random', 'pandas']",
}


def packed(tests):
    """Private tests as LiveCodeBench has them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def livecodebench(private, **changes):
    return {
        "question_title": "Sum",
        "question_content": "Add two numbers.\n\nInput\n\nTwo numbers.\n",
        "platform": "atcoder",
        "question_id": "abc_1",
        "contest_id": "abc",
        "contest_date": "2025-01-01T00:00:00",
        "starter_code": "",
        "difficulty": "medium",
        "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
        "private_test_cases": private,
        "metadata": "{}",
        **changes,
    }


def codecontests(**changes):
    return {
        "source": "Codeforces",
        "id": "847_J",
        "title": "Sum",
        "description": "Add two numbers.\n\nInput\n\nTwo numbers.\n\nOutput\n\nTheir sum.\n",
        "time_limit": 2000,
        "memory_limit": 256,
        "checker": '#include "testlib.h"\nint main() {}\n',
        "correct_submissions": [
            {"code": "int main() {}", "language": "cpp"},
            {"code": "a, b = map(int, input().split())\nprint(a + b)\n", "language": "PY3"},
            {"code": "print(sum(map(int, input().split())))\n", "language": "py3"},
        ],
        "incorrect_submissions": [],
        "test_cases": [{"input": "1 2\n", "output": "3\n"}, {"input": "2 2\n", "output": "4\n"}],
        "true_positive_rate": None,
        **changes,
    }
