"""Python that others wrote, as a tree; what the compiler would warn of is theirs."""

import ast
import warnings


def parsed(code: str) -> ast.Module:
    """The tree of a module; SyntaxError or ValueError where it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)
