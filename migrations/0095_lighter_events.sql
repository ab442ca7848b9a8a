-- What an event costs: SQLite builds a table in memory for each `IN` of three words or more, at each row; comparisons need none.
-- The words that come most often stand first. Triggers name the table; it is made anew under its name.
CREATE TEMP TABLE kept AS SELECT seq, at, kind, group_folder, chat_jid, subject FROM events;
DROP TABLE events;
CREATE TABLE events (
  seq          INTEGER PRIMARY KEY,
  at           INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  kind         TEXT NOT NULL CHECK (kind = 'command' OR kind = 'say' OR kind = 'said' OR kind = 'inbox' OR kind = 'message'
                 OR kind = 'judged' OR kind = 'handed' OR kind = 'finished' OR kind = 'run' OR kind = 'task' OR kind = 'session'
                 OR kind = 'unsaid' OR kind = 'cleared' OR kind = 'group' OR kind = 'wiring' OR kind = 'chat' OR kind = 'person'
                 OR kind = 'question' OR kind = 'hold'),
  group_folder TEXT,
  chat_jid     TEXT,
  subject      TEXT NOT NULL
) STRICT;
INSERT INTO events SELECT seq, at, kind, group_folder, chat_jid, subject FROM kept;
DROP TABLE kept;
