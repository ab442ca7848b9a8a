-- Runs that have files in `data/runs`, which housekeeping looks through.
CREATE INDEX runs_with_files ON runs (group_folder, ended_at) WHERE files_bytes > 0;

-- What each group takes on the disk by kind, bytes, as it was weighed last.
CREATE TABLE group_disk (
  group_folder   TEXT PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  working_folder INTEGER NOT NULL CHECK (working_folder >= 0),
  sessions       INTEGER NOT NULL CHECK (sessions >= 0),
  runs           INTEGER NOT NULL CHECK (runs >= 0),
  media          INTEGER NOT NULL CHECK (media >= 0),
  mailbox        INTEGER NOT NULL CHECK (mailbox >= 0),
  -- Not all of it could be weighed: there may be more.
  partial        INTEGER NOT NULL CHECK (partial IN (0, 1)),
  weighed_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
