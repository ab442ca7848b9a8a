-- What was taken from other installations is known by its key there.

-- == neither: moving ==
-- What moves in from other installations.

-- Rows that were taken from a source, by kind and key there, and what they are here: the same row again changes nothing. Messages,
-- later acts on them and texts are known by keys of their own tables.
-- Writer: moving/.
-- Pruned: never, or a row that was removed here would come again.
CREATE TABLE imported (
  source TEXT NOT NULL CHECK (length(source) BETWEEN 1 AND 1000),
  kind   TEXT NOT NULL CHECK (length(kind) BETWEEN 1 AND 32),
  key    TEXT NOT NULL CHECK (length(key) <= 512),
  own    TEXT NOT NULL,
  PRIMARY KEY (source, kind, key)
) STRICT, WITHOUT ROWID;
