"""Counts of each prompt (seen, chosen) and its last outcome: a row per prompt. And the
categories, outcomes and reasons that there are.

Only rows that are new since the last count are read; after rows were forgotten, all are.
"""

import sqlite3

NOT_ROLLED_OUT = "not rolled out"
TABLES = f"""
CREATE TABLE filters (name TEXT, value TEXT, PRIMARY KEY (name, value));
CREATE TABLE counts (prompt TEXT PRIMARY KEY, judged INTEGER DEFAULT 0, picked INTEGER DEFAULT 0,
  grouped INTEGER DEFAULT 0, score REAL, mean REAL, outcome TEXT DEFAULT '{NOT_ROLLED_OUT}',
  last INTEGER DEFAULT 0);
"""
_JUDGED = """
INSERT INTO counts (prompt, judged, picked, score, last)
SELECT prompt, count(*), sum(chosen), score, max(step) FROM judgments WHERE rowid > ?
GROUP BY prompt ON CONFLICT (prompt) DO UPDATE SET judged = judged + excluded.judged,
  picked = picked + excluded.picked, score = excluded.score, last = max(last, excluded.last)
"""
_GROUPED = """
INSERT INTO counts (prompt, grouped, mean, outcome, last)
SELECT prompt, count(*), mean, outcome, max(step) FROM groups WHERE rowid > ?
GROUP BY prompt ON CONFLICT (prompt) DO UPDATE SET grouped = grouped + excluded.grouped,
  mean = excluded.mean, outcome = excluded.outcome, last = max(last, excluded.last)
"""
_NAMED = "INSERT OR IGNORE INTO counts (prompt) SELECT prompt FROM texts WHERE rowid > ?"
_FILTER = "INSERT OR IGNORE INTO filters SELECT DISTINCT '{0}', {0} FROM {1} WHERE rowid > ?"
_NEW = {
    "judgments": (_JUDGED, _FILTER.format("reason", "judgments")),
    "groups": (_GROUPED, _FILTER.format("outcome", "groups")),
    "texts": (_NAMED, _FILTER.format("category", "texts")),
}
"""The statement that is run for new rows of a table."""


def count(write: sqlite3.Connection) -> None:
    """Count the new rows."""
    for table, queries in _NEW.items():
        name = f"counted {table}"
        before = write.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        [last] = write.execute(f"SELECT coalesce(max(rowid), 0) FROM {table}").fetchone()
        if before != (last,):
            for query in queries:
                write.execute(query, before or (0,))
            write.execute("REPLACE INTO about VALUES (?, ?)", (name, last))


def forget(write: sqlite3.Connection) -> None:
    """Discard the counts, since rows were deleted."""
    write.execute("DELETE FROM counts")
    write.execute("DELETE FROM filters")
    write.execute("DELETE FROM about WHERE name LIKE 'counted %'")
