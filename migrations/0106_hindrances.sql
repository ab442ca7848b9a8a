-- What of the host keeps a group's runs from their work, since a run of it met that; the row goes when a run does its work.
CREATE TABLE hindrances (
  group_folder TEXT NOT NULL PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  what         TEXT NOT NULL CHECK (what = 'no_key' OR what = 'key' OR what = 'not_allowed' OR what = 'no_credit' OR what = 'no_image' OR what = 'engine'),
  -- In words, for people.
  why          TEXT NOT NULL CHECK (length(why) BETWEEN 1 AND 1000),
  since        INTEGER NOT NULL,
  -- How many runs in a row have met it.
  times        INTEGER NOT NULL CHECK (times >= 1),
  -- Until then what has met it rests, unless it is put right before.
  until        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
