-- Agents ask the people of their chats, and get the answer as a message.

-- == talk: questions ==
-- Questions of agents to the people of a chat.

-- Questions of agents, their cards and their answers.
-- Writer: talk/questions.rs, restored.rs.
-- Pruned: with its group; of each group the newest 200 closed ones stay.
CREATE TABLE questions (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  chat_jid     TEXT NOT NULL,
  thread       TEXT NOT NULL,
  -- The run that asked; NULL: a command that was written by hand.
  run_id       INTEGER,
  state        TEXT NOT NULL CHECK (state IN ('open', 'answered', 'expired', 'undeliverable')),
  question     TEXT NOT NULL,
  -- The answers that are offered, a JSON array of texts.
  options      TEXT NOT NULL CHECK (json_valid(options)),
  -- The row of the outbox that says it.
  card         INTEGER,
  asked_at     INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  -- The message that answered it; the beginning of the answer, and the name of its author.
  seq          INTEGER,
  answer       TEXT,
  answered_by  TEXT,
  CHECK ((state = 'answered') = (seq IS NOT NULL) AND (seq IS NULL) = (answer IS NULL) AND (seq IS NULL) = (answered_by IS NULL))
) STRICT;
CREATE INDEX questions_open_by_chat ON questions (chat_jid, id) WHERE state = 'open';
CREATE INDEX questions_open_by_end ON questions (expires_at) WHERE state = 'open';
CREATE INDEX questions_open_by_card ON questions (card) WHERE state = 'open';
CREATE INDEX questions_by_group ON questions (group_folder, id);

CREATE TRIGGER events_asked AFTER INSERT ON questions BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('question', new.group_folder, new.chat_jid, 'q' || new.id);
END;
CREATE TRIGGER events_asked_closed AFTER UPDATE OF state ON questions WHEN new.state <> old.state BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('question', new.group_folder, new.chat_jid, 'q' || new.id);
END;

-- == talk: messages ==

-- The agent's question that it answers, or whose end it tells the agent.
ALTER TABLE messages ADD COLUMN answers INTEGER;
CREATE INDEX messages_by_answers ON messages (answers, seq) WHERE answers IS NOT NULL;

-- == talk: outbox ==

-- The cards of approvals in a chat.
CREATE INDEX outbox_cards ON outbox (chat_jid, id) WHERE cause_kind = 'approval' AND buttons IS NOT NULL;

DROP TRIGGER amends_closed;
DROP TRIGGER amends_another;
ALTER TABLE amends RENAME TO amends_before;

-- What of ours on a platform is to be changed there: a card once its question is closed; our reaction to a message once no agent has
-- it in hand, from before it is put.
-- Writer: talk/amends.rs, talk/questions.rs, the triggers below.
-- Pruned: by `talk/amends.rs`, once the platform shows that or it is given up.
CREATE TABLE amends (
  -- A number is used once: work on a row may outlive it.
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  -- A card, and its approval, or what came of an agent's question.
  outbox_id   INTEGER UNIQUE REFERENCES outbox (id) ON DELETE CASCADE,
  approval_id INTEGER,
  outcome     TEXT CHECK (outcome <> ''),
  -- A reaction: the batch of its message, the message, and the id of the reaction on the platform, where it has one.
  batch       INTEGER UNIQUE,
  chat_jid    TEXT,
  message_id  TEXT CHECK (length(message_id) BETWEEN 1 AND 512),
  sign_id     TEXT CHECK (length(sign_id) BETWEEN 1 AND 512),
  CHECK ((outbox_id IS NOT NULL) = ((approval_id IS NOT NULL) + (outcome IS NOT NULL)) AND (outbox_id IS NULL) = (batch IS NOT NULL)),
  CHECK ((batch IS NULL) = (chat_jid IS NULL) AND (batch IS NULL) = (message_id IS NULL) AND (batch IS NOT NULL OR sign_id IS NULL))
) STRICT;
INSERT INTO amends (id, outbox_id, approval_id, batch, chat_jid, message_id, sign_id)
  SELECT id, outbox_id, approval_id, batch, chat_jid, message_id, sign_id FROM amends_before;
DROP TABLE amends_before;

-- A question is closed; another card stands for it.
CREATE TRIGGER amends_closed AFTER UPDATE OF state ON approvals
  WHEN old.state = 'pending' AND new.state IN ('approved', 'denied', 'expired') BEGIN
  INSERT OR IGNORE INTO amends (outbox_id, approval_id) SELECT id, new.id FROM outbox WHERE id = new.card AND buttons IS NOT NULL;
END;
CREATE TRIGGER amends_another AFTER UPDATE OF card ON approvals WHEN new.card IS NOT old.card BEGIN
  INSERT OR IGNORE INTO amends (outbox_id, approval_id) SELECT id, new.id FROM outbox WHERE id = old.card AND buttons IS NOT NULL;
END;
