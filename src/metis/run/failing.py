"""Failed rollouts in words: the notices of a run that say why, and how they are found again."""

from pathlib import Path

from metis.run import folder as run_folder

FAILED = "a rollout failed: "
MORE = "; more of this kind are counted, not shown"


def notice(reason: str) -> str:
    """The notice of the first failure of a kind."""
    return f"{FAILED}{reason}{MORE}"


def reasons(folder: Path) -> list[str]:
    """The reason of the first failure of each kind, as far as a run has written it down."""
    rows = run_folder.read(folder, "notices", optional=True)
    texts = [row["text"] for row in rows if row["text"].startswith(FAILED)]
    return [text.removeprefix(FAILED).removesuffix(MORE) for text in texts]
