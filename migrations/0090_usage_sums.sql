-- What was used, added up: in each quarter by model, and in each day (by UTC) by group and model. Lists of many runs are read from
-- here; triggers keep it, in the transaction that writes or prunes.
CREATE TABLE usage_quarters (
  quarter               INTEGER NOT NULL CHECK (quarter % 900000 = 0),
  model                 TEXT NOT NULL,
  requests              INTEGER NOT NULL,
  errors                INTEGER NOT NULL,
  refused               INTEGER NOT NULL,
  input_tokens          INTEGER NOT NULL,
  cache_creation_tokens INTEGER NOT NULL,
  cache_read_tokens     INTEGER NOT NULL,
  output_tokens         INTEGER NOT NULL,
  rows                  INTEGER NOT NULL CHECK (rows >= 0),
  PRIMARY KEY (quarter, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_days (
  group_folder          TEXT NOT NULL,
  model                 TEXT NOT NULL,
  day                   INTEGER NOT NULL CHECK (day % 86400000 = 0),
  requests              INTEGER NOT NULL,
  errors                INTEGER NOT NULL,
  refused               INTEGER NOT NULL,
  input_tokens          INTEGER NOT NULL,
  cache_creation_tokens INTEGER NOT NULL,
  cache_read_tokens     INTEGER NOT NULL,
  output_tokens         INTEGER NOT NULL,
  rows                  INTEGER NOT NULL CHECK (rows >= 0),
  PRIMARY KEY (group_folder, model, day)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_quarters
  SELECT quarter, model, sum(requests), sum(errors), sum(refused), sum(input_tokens), sum(cache_creation_tokens), sum(cache_read_tokens), sum(output_tokens), count(*)
  FROM usage GROUP BY quarter, model;
INSERT INTO usage_days
  SELECT group_folder, model, quarter - quarter % 86400000, sum(requests), sum(errors), sum(refused), sum(input_tokens), sum(cache_creation_tokens), sum(cache_read_tokens), sum(output_tokens), count(*)
  FROM usage GROUP BY 1, 2, 3;

CREATE TRIGGER usage_sums_insert AFTER INSERT ON usage BEGIN
  INSERT INTO usage_quarters VALUES (new.quarter, new.model, new.requests, new.errors, new.refused, new.input_tokens, new.cache_creation_tokens, new.cache_read_tokens, new.output_tokens, 1)
    ON CONFLICT (quarter, model) DO UPDATE SET
      requests = requests + excluded.requests, errors = errors + excluded.errors, refused = refused + excluded.refused,
      input_tokens = input_tokens + excluded.input_tokens, cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens, output_tokens = output_tokens + excluded.output_tokens, rows = rows + 1;
  INSERT INTO usage_days VALUES (new.group_folder, new.model, new.quarter - new.quarter % 86400000, new.requests, new.errors, new.refused, new.input_tokens, new.cache_creation_tokens, new.cache_read_tokens, new.output_tokens, 1)
    ON CONFLICT (group_folder, model, day) DO UPDATE SET
      requests = requests + excluded.requests, errors = errors + excluded.errors, refused = refused + excluded.refused,
      input_tokens = input_tokens + excluded.input_tokens, cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens, output_tokens = output_tokens + excluded.output_tokens, rows = rows + 1;
END;
CREATE TRIGGER usage_sums_update AFTER UPDATE ON usage BEGIN
  UPDATE usage_quarters SET
      requests = requests + new.requests - old.requests, errors = errors + new.errors - old.errors, refused = refused + new.refused - old.refused,
      input_tokens = input_tokens + new.input_tokens - old.input_tokens,
      cache_creation_tokens = cache_creation_tokens + new.cache_creation_tokens - old.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens + new.cache_read_tokens - old.cache_read_tokens,
      output_tokens = output_tokens + new.output_tokens - old.output_tokens
    WHERE quarter = new.quarter AND model = new.model;
  UPDATE usage_days SET
      requests = requests + new.requests - old.requests, errors = errors + new.errors - old.errors, refused = refused + new.refused - old.refused,
      input_tokens = input_tokens + new.input_tokens - old.input_tokens,
      cache_creation_tokens = cache_creation_tokens + new.cache_creation_tokens - old.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens + new.cache_read_tokens - old.cache_read_tokens,
      output_tokens = output_tokens + new.output_tokens - old.output_tokens
    WHERE group_folder = new.group_folder AND model = new.model AND day = new.quarter - new.quarter % 86400000;
END;
CREATE TRIGGER usage_sums_delete AFTER DELETE ON usage BEGIN
  UPDATE usage_quarters SET
      requests = requests - old.requests, errors = errors - old.errors, refused = refused - old.refused,
      input_tokens = input_tokens - old.input_tokens, cache_creation_tokens = cache_creation_tokens - old.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens - old.cache_read_tokens, output_tokens = output_tokens - old.output_tokens, rows = rows - 1
    WHERE quarter = old.quarter AND model = old.model;
  DELETE FROM usage_quarters WHERE quarter = old.quarter AND model = old.model AND rows = 0;
  UPDATE usage_days SET
      requests = requests - old.requests, errors = errors - old.errors, refused = refused - old.refused,
      input_tokens = input_tokens - old.input_tokens, cache_creation_tokens = cache_creation_tokens - old.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens - old.cache_read_tokens, output_tokens = output_tokens - old.output_tokens, rows = rows - 1
    WHERE group_folder = old.group_folder AND model = old.model AND day = old.quarter - old.quarter % 86400000;
  DELETE FROM usage_days WHERE group_folder = old.group_folder AND model = old.model AND day = old.quarter - old.quarter % 86400000 AND rows = 0;
END;
