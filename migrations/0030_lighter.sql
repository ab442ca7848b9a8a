-- What a text that is sent costs: fewer pages in the commit that says so.

-- The numbers of events go on without AUTOINCREMENT, for the newest event stays (`src/store/talk/events.rs`). SQLite's table of
-- numbers given would be one more page in each commit. Triggers name the table; it is made anew under its name.
CREATE TEMP TABLE kept AS SELECT * FROM events;
INSERT INTO kept (seq, at, kind, subject)
  SELECT seq, CAST(unixepoch('subsec') * 1000 AS INTEGER), 'hold', '0' FROM sqlite_sequence
   WHERE name = 'events' AND seq > 0 AND NOT EXISTS (SELECT 1 FROM events);
DROP TABLE events;
CREATE TABLE events (
  seq          INTEGER PRIMARY KEY,
  at           INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  kind         TEXT NOT NULL CHECK (kind IN ('message', 'inbox', 'judged', 'handed', 'finished', 'cleared', 'run', 'say', 'said',
                 'unsaid', 'command', 'task', 'session', 'group', 'wiring', 'chat', 'person', 'question', 'hold')),
  group_folder TEXT,
  chat_jid     TEXT,
  subject      TEXT NOT NULL
) STRICT;
INSERT INTO events SELECT seq, at, kind, group_folder, chat_jid, subject FROM kept;
DROP TABLE kept;

-- A platform that calls a text by the number of its row needs no row of its own for the only part.
DELETE FROM outbox_parts WHERE part = 1 AND text IS NULL AND platform_id = CAST(outbox_id AS TEXT)
  AND (SELECT status FROM outbox WHERE id = outbox_id) = 'sent'
  AND NOT EXISTS (SELECT 1 FROM outbox_parts AS other WHERE other.outbox_id = outbox_parts.outbox_id AND other.part <> 1);
