-- Talk and work meet at two places only (`src/store/README.md`); each crossing has a key.

-- What an agent's work has said is said once: the record, the command or the end that it comes from is its key. NULL: a person
-- or the host says it, or it was said before there were keys.
ALTER TABLE outbox ADD COLUMN said_key TEXT CHECK (length(said_key) BETWEEN 1 AND 255);
CREATE UNIQUE INDEX outbox_once ON outbox (said_key) WHERE said_key IS NOT NULL;

-- A lane as work sees it, once an agent had something to do with it: its session, how often it was another one, and until when
-- it rests after a failure.
CREATE TABLE sessions (
  lane_id      INTEGER PRIMARY KEY REFERENCES lanes (id) ON DELETE CASCADE,
  group_folder TEXT NOT NULL,
  chat_jid     TEXT NOT NULL,
  thread       TEXT NOT NULL,
  generation   INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
  session_id   TEXT CHECK (session_id IS NULL OR (length(session_id) BETWEEN 1 AND 64 AND session_id NOT GLOB '*[^A-Za-z0-9-]*')),
  rest_until   INTEGER
) STRICT;
CREATE INDEX sessions_by_group ON sessions (group_folder, lane_id);
INSERT INTO sessions (lane_id, group_folder, chat_jid, thread, generation, session_id, rest_until)
  SELECT id, group_folder, chat_jid, thread, generation, session_id, rest_until FROM lanes;
DROP TRIGGER events_cleared;
DROP TRIGGER events_handed;
DROP TRIGGER events_batch;
ALTER TABLE lanes DROP COLUMN generation;
ALTER TABLE lanes DROP COLUMN session_id;
ALTER TABLE lanes DROP COLUMN rest_until;

-- A lane has another session.
CREATE TRIGGER events_cleared AFTER UPDATE OF generation ON sessions WHEN new.generation <> old.generation BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('cleared', new.group_folder, new.chat_jid, new.lane_id);
END;

-- A batch was given to an agent; it is done, failed or returned.
CREATE TRIGGER events_handed AFTER INSERT ON batches BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    SELECT iif(new.state IN ('handed', 'claimed'), 'handed', 'finished'), group_folder, chat_jid, new.id FROM sessions WHERE lane_id = new.lane_id;
END;
CREATE TRIGGER events_batch AFTER UPDATE OF state ON batches
WHEN (new.state IN ('handed', 'claimed')) <> (old.state IN ('handed', 'claimed')) BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    SELECT iif(new.state IN ('handed', 'claimed'), 'handed', 'finished'), group_folder, chat_jid, new.id FROM sessions WHERE lane_id = new.lane_id;
END;

-- A folder has its number from the moment that it is a group's.
CREATE TRIGGER group_uids_number AFTER INSERT ON groups BEGIN
  INSERT OR IGNORE INTO group_uids (folder) VALUES (new.folder);
END;

-- What a platform has of a row is not kept twice: the row has the whole text.
UPDATE outbox_parts SET text = NULL WHERE sent_at IS NOT NULL AND text IS NOT NULL;
