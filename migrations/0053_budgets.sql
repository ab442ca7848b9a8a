-- How the budget of each group stands that has one, since a look at it found it otherwise.
CREATE TABLE budgets (
  group_folder TEXT NOT NULL PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  -- The day, from its start to that of the next one.
  day          INTEGER NOT NULL,
  ends         INTEGER NOT NULL,
  stand        TEXT NOT NULL CHECK (stand IN ('enough', 'near', 'out')),
  -- The part that decides, and how much of it is used, as `400 of 500 requests`.
  part         TEXT CHECK (part IN ('requests', 'tokens', 'money', 'minutes')),
  what         TEXT CHECK (length(what) BETWEEN 1 AND 200),
  -- When it was used up last and had something left again; what was missed before that was missed for it.
  left_since   INTEGER,
  CHECK (day < ends),
  CHECK ((part IS NULL) = (stand = 'enough') AND (what IS NULL) = (stand = 'enough'))
) STRICT, WITHOUT ROWID;

-- How long the containers of a group ran today.
CREATE INDEX runs_by_group_end ON runs (group_folder, ended_at) WHERE ended_at IS NOT NULL;
