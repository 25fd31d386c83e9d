// Rows of a run: which of them are shown, and in which order. Nothing here touches the page.
"use strict";

const filters = (() => {
  const ROLLED_OUT = "rolled out";
  const ALL = "all candidates";
  const NOT_ROLLED_OUT = "not rolled out";

  const EMPTY = { text: "", category: "", reason: "", outcome: ROLLED_OUT, step: "" };

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  const COLUMNS = {
    step: (row) => row.step,
    prompt: (row) => row.prompt,
    category: (row) => row.category,
    reason: (row) => row.failure || row.reason || "",
    "v̂": (row) => row.score,
    v: (row) => row.variance,
    reward: (row) => (row.rewards?.length ? mean(row.rewards) : undefined),
    tokens: (row) => (row.tokens?.length ? mean(row.tokens) : undefined),
  };

  /** All text of a row in small letters, put together when it is first looked for. */
  const words = (row) =>
    (row.words ??= [row.prompt, row.text, row.reply, ...(row.answers ?? [])]
      .filter(Boolean)
      .join("\n")
      .toLowerCase());

  const hasOutcome = (row, outcome) => {
    if (outcome === ALL) return true;
    if (outcome === ROLLED_OUT) return row.outcome !== NOT_ROLLED_OUT;
    return row.outcome === outcome;
  };

  const shown = (rows, filter) => {
    const text = filter.text.trim().toLowerCase();
    const step = filter.step === "" ? null : Number(filter.step);
    return rows.filter(
      (row) =>
        (step === null || row.step === step) &&
        hasOutcome(row, filter.outcome) &&
        (filter.category === "" || row.category === filter.category) &&
        (filter.reason === "" || COLUMNS.reason(row) === filter.reason) &&
        (text === "" || words(row).includes(text)),
    );
  };

  /** A sorted copy; rows without a value come last in either direction. */
  const sorted = (rows, column, descending) => {
    const value = COLUMNS[column];
    const sign = descending ? -1 : 1;
    return rows.slice().sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === b) return 0;
      if (a === undefined) return 1;
      if (b === undefined) return -1;
      return sign * (a < b ? -1 : 1);
    });
  };

  const values = (run, column) => {
    run.values ??= {};
    return (run.values[column] ??= new Set(run.rows.map(COLUMNS[column])));
  };

  /** The values that a field has in some runs, in the order of their names. */
  const choices = (runs, column) =>
    [...new Set(runs.flatMap((run) => [...values(run, column)]))]
      .filter(Boolean)
      .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));

  const OUTCOMES = [ROLLED_OUT, "informative", "all-fail", "all-pass", "failed", NOT_ROLLED_OUT, ALL];

  return { COLUMNS, EMPTY, OUTCOMES, choices, shown, sorted };
})();
