-- The feed of changes: what changed, in the order in which it was committed. A row is written by the transaction that makes
-- the change; `src/store/events.rs` reads them, and removes old ones. `subject` is what the kind says: the id of the row that
-- changed. Triggers write them, so that no writer can forget one. `at` is SQLite's own clock, for a trigger has no other.
CREATE TABLE events (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  at           INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  kind         TEXT NOT NULL CHECK (kind IN ('message', 'inbox', 'judged', 'handed', 'finished', 'cleared', 'run', 'say', 'said',
                 'unsaid', 'command', 'task', 'session', 'group', 'wiring', 'chat', 'person', 'question', 'hold')),
  group_folder TEXT,
  chat_jid     TEXT,
  subject      TEXT NOT NULL
) STRICT;

-- A message came in; it is to be judged for a group; it was judged.
CREATE TRIGGER events_message AFTER INSERT ON messages BEGIN
  INSERT INTO events (kind, chat_jid, subject) VALUES ('message', new.chat_jid, new.seq);
END;
CREATE TRIGGER events_inbox AFTER INSERT ON inbox WHEN new.verdict IS NULL BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    SELECT 'inbox', group_folder, chat_jid, new.seq FROM lanes WHERE id = new.lane_id;
END;
CREATE TRIGGER events_judged AFTER UPDATE OF verdict ON inbox WHEN new.verdict IS NOT old.verdict BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    SELECT iif(new.verdict IS NULL, 'inbox', 'judged'), group_folder, chat_jid, new.seq FROM lanes WHERE id = new.lane_id;
END;

-- A batch was given to an agent; it is done, failed or returned.
CREATE TRIGGER events_handed AFTER INSERT ON batches BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    SELECT iif(new.state IN ('handed', 'claimed'), 'handed', 'finished'), group_folder, chat_jid, new.id FROM lanes WHERE id = new.lane_id;
END;
CREATE TRIGGER events_batch AFTER UPDATE OF state ON batches
WHEN (new.state IN ('handed', 'claimed')) <> (old.state IN ('handed', 'claimed')) BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    SELECT iif(new.state IN ('handed', 'claimed'), 'handed', 'finished'), group_folder, chat_jid, new.id FROM lanes WHERE id = new.lane_id;
END;
-- A lane has another session.
CREATE TRIGGER events_cleared AFTER UPDATE OF generation ON lanes WHEN new.generation <> old.generation BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('cleared', new.group_folder, new.chat_jid, new.id);
END;

-- A run is queued, has a container, is ready, is asked to leave, has ended.
CREATE TRIGGER events_run_new AFTER INSERT ON runs BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('run', new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_run AFTER UPDATE OF status, ready_at, closing_at ON runs
WHEN new.status <> old.status OR new.ready_at IS NOT old.ready_at OR new.closing_at IS NOT old.closing_at BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('run', new.group_folder, new.chat_jid, new.id);
END;

-- Something is to be said to a chat; it was said; it could not be, or nobody knows.
CREATE TRIGGER events_say AFTER INSERT ON outbox BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('say', new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_said AFTER UPDATE OF status ON outbox WHEN new.status <> old.status AND new.status <> 'sending' BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    VALUES (CASE new.status WHEN 'sent' THEN 'said' WHEN 'pending' THEN 'say' ELSE 'unsaid' END, new.group_folder, new.chat_jid, new.id);
END;

-- A command was settled: applied, refused or dead.
CREATE TRIGGER events_command AFTER INSERT ON receipts BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('command', new.group_folder, new.claim_id);
END;

CREATE TRIGGER events_task_new AFTER INSERT ON tasks BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('task', new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_task AFTER UPDATE ON tasks BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('task', new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_task_gone AFTER DELETE ON tasks BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('task', old.group_folder, old.chat_jid, old.id);
END;

-- Archived sessions.
CREATE TRIGGER events_session_new AFTER INSERT ON archives BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('session', new.group_folder, new.id);
END;
CREATE TRIGGER events_session AFTER UPDATE ON archives BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('session', new.group_folder, new.id);
END;
CREATE TRIGGER events_session_gone AFTER DELETE ON archives BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('session', old.group_folder, old.id);
END;

CREATE TRIGGER events_group_new AFTER INSERT ON groups BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', new.folder, new.folder);
END;
CREATE TRIGGER events_group AFTER UPDATE ON groups BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', new.folder, new.folder);
END;
CREATE TRIGGER events_group_gone AFTER DELETE ON groups BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', old.folder, old.folder);
END;

CREATE TRIGGER events_wiring_new AFTER INSERT ON wirings BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('wiring', new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_wiring AFTER UPDATE ON wirings BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('wiring', new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_wiring_gone AFTER DELETE ON wirings BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('wiring', old.group_folder, old.chat_jid, old.id);
END;

CREATE TRIGGER events_chat_new AFTER INSERT ON chats BEGIN
  INSERT INTO events (kind, chat_jid, subject) VALUES ('chat', new.jid, new.jid);
END;
CREATE TRIGGER events_chat AFTER UPDATE ON chats BEGIN
  INSERT INTO events (kind, chat_jid, subject) VALUES ('chat', new.jid, new.jid);
END;

-- Who people are, what they may decide, whom groups know.
CREATE TRIGGER events_user_new AFTER INSERT ON users BEGIN
  INSERT INTO events (kind, subject) VALUES ('person', new.id);
END;
CREATE TRIGGER events_user AFTER UPDATE ON users BEGIN
  INSERT INTO events (kind, subject) VALUES ('person', new.id);
END;
CREATE TRIGGER events_user_gone AFTER DELETE ON users BEGIN
  INSERT INTO events (kind, subject) VALUES ('person', old.id);
END;
CREATE TRIGGER events_role_new AFTER INSERT ON roles BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('person', new.group_folder, new.user_id);
END;
CREATE TRIGGER events_role_gone AFTER DELETE ON roles BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('person', old.group_folder, old.user_id);
END;
CREATE TRIGGER events_member_new AFTER INSERT ON members BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('person', new.group_folder, new.user_id);
END;
CREATE TRIGGER events_member_gone AFTER DELETE ON members BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('person', old.group_folder, old.user_id);
END;

-- A question to whoever may decide: asked, answered, ended.
CREATE TRIGGER events_question_new AFTER INSERT ON approvals BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('question', new.decided_group, new.chat_jid, new.id);
END;
CREATE TRIGGER events_question AFTER UPDATE OF state ON approvals WHEN new.state <> old.state BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('question', new.decided_group, new.chat_jid, new.id);
END;

CREATE TRIGGER events_hold_new AFTER INSERT ON holds BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('hold', new.group_folder, new.id);
END;
CREATE TRIGGER events_hold_gone AFTER DELETE ON holds BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('hold', old.group_folder, old.id);
END;
