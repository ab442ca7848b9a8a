-- What people do to the queue of commands.

-- What is kept from being claimed: all of a group ('' and no name), or one file of a box by its name's bytes.
CREATE TABLE holds (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  box          TEXT NOT NULL DEFAULT '' CHECK (box IN ('', 'messages', 'tasks')),
  name         BLOB NOT NULL DEFAULT x'',
  reason       TEXT,
  at           INTEGER NOT NULL,
  UNIQUE (group_folder, box, name),
  CHECK ((box = '') = (length(name) = 0))
) STRICT;

-- What a person decided about a claim before it was settled: it is an earlier one tried again, or it is dropped.
CREATE TABLE by_hand (
  claim_id    INTEGER PRIMARY KEY,
  retry_of    INTEGER,
  drop_reason TEXT,
  at          INTEGER NOT NULL,
  CHECK ((retry_of IS NULL) <> (drop_reason IS NULL))
) STRICT;
-- A command is tried again once; the next try is one of that try.
CREATE UNIQUE INDEX by_hand_once ON by_hand (retry_of) WHERE retry_of IS NOT NULL;

-- When the file was last changed in its box, and when it was taken out; NULL where nobody saw it.
ALTER TABLE receipts ADD COLUMN written_at INTEGER;
ALTER TABLE receipts ADD COLUMN claimed_at INTEGER;

-- The id of the run's token that the command carried and that was found good; NULL: its mount alone says whose it is.
ALTER TABLE receipts ADD COLUMN token_id TEXT;
