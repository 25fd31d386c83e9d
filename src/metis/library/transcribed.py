"""Results whose folders keep transcripts: what was said, for other viewers."""

from pathlib import Path

from metis.library.shown import Shown


class Transcribed(Shown):
    """A result with transcripts in its folder."""

    path: Path

    def export_messages(self, file: str | Path) -> Path:
        """Write a JSONL row per rollout, as `metis export --messages` does; returns the file."""
        from metis.export.messages import write_messages

        target = Path(file).expanduser()
        write_messages(self.path, target)
        return target

    def export_inspect(self, folder: str | Path) -> Path:
        """Write logs for `inspect view`, as `metis export --inspect` does; returns their folder."""
        from metis.export.inspect_logs import write_logs

        target = Path(folder).expanduser()
        write_logs(self.path, target)
        return target
