"""The composition of a run's training set: prompts per category (`pool.json`)."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from metis import files
from metis.core import Prompt
from metis.errors import Damaged, MetisError
from metis.run.manifest import SCHEMA

FILE = "pool.json"


def write_composition(folder: Path, prompts: Iterable[Prompt]) -> None:
    """Write the number of training prompts per category."""
    categories = Counter(prompt.category for prompt in prompts)
    document = {
        "schema": SCHEMA,
        "prompts": categories.total(),
        "categories": dict(sorted(categories.items())),
    }
    with files.atomic(folder / FILE) as file:
        file.write(f"{json.dumps(document, indent=2)}\n".encode())


def read_composition(folder: Path) -> dict[str, int]:
    """Prompts per category; empty for a run without the file."""
    try:
        document: Any = json.loads((folder / FILE).read_bytes())
        return {str(name): int(count) for name, count in document["categories"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        where = str(folder / FILE)
        raise MetisError(f"{where!r} cannot be read ({error.strerror}): mend that") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        said = f"{str(folder / FILE)!r} is damaged: restore or delete it"
        raise Damaged(said, folder, FILE) from None
