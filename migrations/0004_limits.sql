-- What keeps runs from their work may be a limit of the model, which is over at a time that its host names.

-- == work: use ==

ALTER TABLE hindrances RENAME TO hindrances_before;

-- Faults of the host that keep the runs of a group from their work, and limits of the model, since a run met one.
-- Writer: work/hindrances.rs.
-- Pruned: once a run does its work, and with its group.
CREATE TABLE hindrances (
  group_folder TEXT NOT NULL PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  what         TEXT NOT NULL CHECK (what = 'no_key' OR what = 'key' OR what = 'not_allowed' OR what = 'no_credit'
               OR what = 'limit' OR what = 'busy' OR what = 'no_image' OR what = 'engine'),
  -- In words, for people.
  why          TEXT NOT NULL CHECK (length(why) BETWEEN 1 AND 1000),
  since        INTEGER NOT NULL,
  -- The number of runs in a row that have met it.
  times        INTEGER NOT NULL CHECK (times >= 1),
  -- Work that has met it rests until then, unless it is put right before. A lane rests a part of it at a time.
  until        INTEGER NOT NULL,
  -- When a limit is over, as the host of the model says.
  ends         INTEGER CHECK (ends IS NULL OR what = 'limit' OR what = 'busy')
) STRICT, WITHOUT ROWID;
INSERT INTO hindrances (group_folder, what, why, since, times, until)
  SELECT group_folder, what, why, since, times, until FROM hindrances_before;
DROP TABLE hindrances_before;

-- Groups whose own model is at a limit, and that ask the model of their `model_fallback` meanwhile.
-- Writer: crossing/fallbacks.rs.
-- Pruned: when the group is given another model, and with it. A row that is over is replaced by the next one.
CREATE TABLE fallbacks (
  group_folder TEXT NOT NULL PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  what         TEXT NOT NULL CHECK (what = 'limit' OR what = 'busy'),
  -- In words, for people.
  why          TEXT NOT NULL CHECK (length(why) BETWEEN 1 AND 1000),
  since        INTEGER NOT NULL,
  until        INTEGER NOT NULL,
  -- The newest run that asks that model.
  run_id       INTEGER
) STRICT, WITHOUT ROWID;
