-- Files that come in: fetched once somebody hears their message, and read by a hook where one is set.

-- What is still to be done with a file beside a message: it is fetched, or it is there and a hook reads it. Without `until` nobody
-- has heard its message; at `until` it is given up.
CREATE TABLE file_work (
  attachment INTEGER PRIMARY KEY REFERENCES attachments (id) ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  step       TEXT NOT NULL CHECK (step IN ('fetch', 'read')),
  -- What fetches it, in its channel's words.
  what       TEXT CHECK (length(what) BETWEEN 1 AND 4096),
  until      INTEGER,
  tries      INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
  next_at    INTEGER,
  CHECK (step = 'read' OR what IS NOT NULL)
) STRICT;
CREATE INDEX file_work_by_message ON file_work (seq);
CREATE INDEX file_work_wanted ON file_work (attachment) WHERE until IS NOT NULL;

-- Rows of the inbox that are judged once nothing is to be done with the files of their message. What came after them in their lane
-- waits behind them.
CREATE TABLE file_holds (
  n       INTEGER PRIMARY KEY REFERENCES inbox (n) ON DELETE CASCADE,
  lane_id INTEGER NOT NULL,
  seq     INTEGER NOT NULL
) STRICT;
CREATE INDEX file_holds_by_lane ON file_holds (lane_id, n);
CREATE INDEX file_holds_by_message ON file_holds (seq);
CREATE TRIGGER events_file_wanted AFTER UPDATE OF until ON file_work WHEN old.until IS NULL AND new.until IS NOT NULL BEGIN
  INSERT INTO events (kind, chat_jid, subject) SELECT 'inbox', chat_jid, new.seq FROM messages WHERE seq = new.seq;
END;
CREATE TRIGGER events_file_unheld AFTER DELETE ON file_holds WHEN EXISTS (SELECT 1 FROM inbox WHERE n = old.n) BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) SELECT 'inbox', group_folder, chat_jid, old.seq FROM lanes WHERE id = old.lane_id;
END;

-- What a hook read in it, such as what somebody says; or why that is not known.
ALTER TABLE attachments ADD COLUMN words TEXT CHECK (words <> '');
ALTER TABLE attachments ADD COLUMN unread TEXT CHECK (length(unread) BETWEEN 1 AND 255);

-- A file that was missing is there.
CREATE TRIGGER media_named_later AFTER UPDATE OF digest ON attachments WHEN old.digest IS NULL AND new.digest IS NOT NULL BEGIN
  INSERT INTO media (digest, size, named) VALUES (new.digest, new.size, 1)
  ON CONFLICT (digest) DO UPDATE SET named = named + 1;
END;
