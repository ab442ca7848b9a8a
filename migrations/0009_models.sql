-- What keeps runs from their work may be a model that its host does not know.

-- == work: use ==

ALTER TABLE hindrances RENAME TO hindrances_before;

-- Faults of the host that keep the runs of a group from their work, limits of the model, and models that there are not, since
-- a run met one.
-- Writer: work/hindrances.rs.
-- Pruned: once a run does its work, and with its group.
CREATE TABLE hindrances (
  group_folder TEXT NOT NULL PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  what         TEXT NOT NULL CHECK (what = 'no_key' OR what = 'key' OR what = 'not_allowed' OR what = 'no_credit'
               OR what = 'no_model' OR what = 'limit' OR what = 'busy' OR what = 'no_image' OR what = 'engine'),
  -- In words, for people.
  why          TEXT NOT NULL CHECK (length(why) BETWEEN 1 AND 1000),
  since        INTEGER NOT NULL,
  -- The number of runs in a row that have met it.
  times        INTEGER NOT NULL CHECK (times >= 1),
  -- Work that has met it rests until then, unless it is put right before. A lane rests a part of it at a time.
  until        INTEGER NOT NULL,
  -- When a limit is over, as the host of the model says, and the model that stands in for the one at its limit need not be asked.
  ends         INTEGER CHECK (ends IS NULL OR what = 'limit' OR what = 'busy' OR what = 'no_model'),
  -- It is a model that there is not, and the group was set to others since.
  other_models INTEGER NOT NULL DEFAULT 0 CHECK (other_models = 0 OR (other_models = 1 AND what = 'no_model'))
) STRICT, WITHOUT ROWID;
INSERT INTO hindrances (group_folder, what, why, since, times, until, ends)
  SELECT group_folder, what, why, since, times, until, ends FROM hindrances_before;
DROP TABLE hindrances_before;
