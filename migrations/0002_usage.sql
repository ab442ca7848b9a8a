-- What runs used of a model, through the gateway. Kept when the run or its group is gone: it was paid for.

-- Summed by quarters of an hour (every zone's midnight is the start of one), so that a run that asks without end adds
-- few rows. The empty model holds what was answered without one, and the refusals.
CREATE TABLE usage (
  run_id                INTEGER NOT NULL,
  group_folder          TEXT NOT NULL,
  model                 TEXT NOT NULL CHECK (length(model) <= 96),
  quarter               INTEGER NOT NULL CHECK (quarter % 900000 = 0),
  requests              INTEGER NOT NULL CHECK (requests >= 0),
  errors                INTEGER NOT NULL CHECK (errors BETWEEN 0 AND requests),
  refused               INTEGER NOT NULL CHECK (refused >= 0),
  input_tokens          INTEGER NOT NULL CHECK (input_tokens >= 0),
  cache_creation_tokens INTEGER NOT NULL CHECK (cache_creation_tokens >= 0),
  cache_read_tokens     INTEGER NOT NULL CHECK (cache_read_tokens >= 0),
  output_tokens         INTEGER NOT NULL CHECK (output_tokens >= 0),
  PRIMARY KEY (run_id, model, quarter)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_time ON usage (quarter);
CREATE INDEX usage_by_group ON usage (group_folder, quarter);

-- The newest requests of each run that were not passed on.
CREATE TABLE refusals (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id INTEGER NOT NULL,
  asked  TEXT NOT NULL,
  why    TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT;
CREATE INDEX refusals_by_run ON refusals (run_id, id);
