-- Files beside messages: where they are kept, how much of them there is, and why one is missing.

-- A message may be a file alone. The constraint is on the column, which SQLite can't change; nothing on disk depends on it.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'text        TEXT NOT NULL CHECK (text <> ''''),', 'text        TEXT NOT NULL,')
 WHERE type = 'table' AND name = 'outbox';
PRAGMA writable_schema = RESET;
-- How many files are beside it, so that nobody looks for those of a text that has none.
ALTER TABLE outbox ADD COLUMN files INTEGER NOT NULL DEFAULT 0 CHECK (files >= 0 AND (files > 0 OR text <> ''));
ALTER TABLE messages ADD COLUMN files INTEGER NOT NULL DEFAULT 0 CHECK (files >= 0);

CREATE TABLE attachments_new (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  seq          INTEGER REFERENCES messages (seq) ON DELETE CASCADE,
  outbox_id    INTEGER REFERENCES outbox (id) ON DELETE CASCADE,
  n            INTEGER NOT NULL CHECK (n >= 1),
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  kind         TEXT NOT NULL CHECK (kind IN ('image', 'video', 'audio', 'voice', 'document')),
  type         TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 255),
  -- Whether the type is what its sender says, and not what its contents tell.
  claimed      INTEGER NOT NULL DEFAULT 1 CHECK (claimed IN (0, 1)),
  size         INTEGER NOT NULL CHECK (size >= 0),
  -- The file is `data/media/<first two digits>/<digest>`; NULL: it is missing, for the reason in `problem`.
  digest       BLOB CHECK (length(digest) = 32),
  problem      TEXT CHECK (length(problem) BETWEEN 1 AND 255),
  caption      TEXT CHECK (caption <> ''),
  seconds      INTEGER CHECK (seconds >= 0),
  -- In which chat, and when: a chat has at most so many bytes in an hour.
  chat_jid     TEXT NOT NULL,
  at           INTEGER NOT NULL,
  -- Whose command it came with, of one that goes out.
  group_folder TEXT,
  CHECK ((seq IS NULL) <> (outbox_id IS NULL)),
  CHECK ((digest IS NULL) <> (problem IS NULL))
) STRICT;
-- No channel has carried files yet: it has no row.
DROP TABLE attachments;
ALTER TABLE attachments_new RENAME TO attachments;
CREATE UNIQUE INDEX attachments_in ON attachments (seq, n) WHERE seq IS NOT NULL;
CREATE UNIQUE INDEX attachments_out ON attachments (outbox_id, n) WHERE outbox_id IS NOT NULL;
CREATE INDEX attachments_lately ON attachments (chat_jid, at, size);

-- Each file that is named, once, with how many rows name it; and how many bytes these files have.
CREATE TABLE media (
  digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
  size   INTEGER NOT NULL CHECK (size >= 0),
  named  INTEGER NOT NULL CHECK (named >= 1)
) STRICT, WITHOUT ROWID;
CREATE TABLE media_size (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  bytes INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT;
INSERT INTO media_size (one, bytes) VALUES (1, 0);
CREATE TRIGGER media_named AFTER INSERT ON attachments WHEN new.digest IS NOT NULL BEGIN
  INSERT INTO media (digest, size, named) VALUES (new.digest, new.size, 1)
  ON CONFLICT (digest) DO UPDATE SET named = named + 1;
END;
CREATE TRIGGER media_unnamed AFTER DELETE ON attachments WHEN old.digest IS NOT NULL BEGIN
  DELETE FROM media WHERE digest = old.digest AND named = 1;
  UPDATE media SET named = named - 1 WHERE digest = old.digest;
END;
CREATE TRIGGER media_more AFTER INSERT ON media BEGIN
  UPDATE media_size SET bytes = bytes + new.size;
END;
CREATE TRIGGER media_less AFTER DELETE ON media BEGIN
  UPDATE media_size SET bytes = bytes - old.size;
END;
-- A file of a group's command counts as its texts do.
CREATE TRIGGER stored_file AFTER INSERT ON attachments WHEN new.group_folder IS NOT NULL BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 512 + new.size)
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_file_gone AFTER DELETE ON attachments WHEN old.group_folder IS NOT NULL BEGIN
  UPDATE stored SET bytes = bytes - (512 + old.size) WHERE group_folder = old.group_folder;
END;
