-- What platforms are told, part by part, and what they tell beside messages.

-- Of a text that a platform takes in pieces only: each piece, with the id that the platform gave it once it had it. `text` is
-- NULL where the row's own text is the only part.
CREATE TABLE outbox_parts (
  outbox_id   INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
  part        INTEGER NOT NULL CHECK (part >= 1),
  chat_jid    TEXT NOT NULL,
  text        TEXT CHECK (text <> ''),
  platform_id TEXT CHECK (length(platform_id) BETWEEN 1 AND 512),
  sent_at     INTEGER,
  PRIMARY KEY (outbox_id, part),
  CHECK ((platform_id IS NULL) = (sent_at IS NULL))
) STRICT, WITHOUT ROWID;
-- A reply names what it answers by the platform's id.
CREATE INDEX outbox_parts_by_id ON outbox_parts (chat_jid, platform_id) WHERE platform_id IS NOT NULL;
INSERT INTO outbox_parts (outbox_id, part, chat_jid, platform_id, sent_at)
  SELECT id, 1, chat_jid, id, sent_at FROM outbox
   WHERE status = 'sent' AND id IN (SELECT card FROM approvals WHERE state = 'pending');

-- Files beside a message that came in, or beside what is to be said.
CREATE TABLE attachments (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  seq       INTEGER REFERENCES messages (seq) ON DELETE CASCADE,
  outbox_id INTEGER REFERENCES outbox (id) ON DELETE CASCADE,
  n         INTEGER NOT NULL CHECK (n >= 1),
  name      TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  type      TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 255),
  size      INTEGER NOT NULL CHECK (size >= 0),
  digest    BLOB NOT NULL CHECK (length(digest) = 32),
  -- Below `data/`.
  place     TEXT NOT NULL CHECK (length(place) BETWEEN 1 AND 4096),
  CHECK ((seq IS NULL) <> (outbox_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX attachments_in ON attachments (seq, n) WHERE seq IS NOT NULL;
CREATE UNIQUE INDEX attachments_out ON attachments (outbox_id, n) WHERE outbox_id IS NOT NULL;

-- What people did to a message afterwards: they deleted it, or put a reaction to it, or took that back. `message_id` is the
-- platform's, of theirs or of ours.
CREATE TABLE message_marks (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  chat_jid   TEXT NOT NULL REFERENCES chats (jid),
  replay_key TEXT NOT NULL,
  message_id TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('deleted', 'reaction', 'reaction_gone')),
  sender     TEXT NOT NULL,
  reaction   TEXT NOT NULL DEFAULT '' CHECK (length(reaction) <= 64 AND (reaction = '') = (kind = 'deleted')),
  at         INTEGER NOT NULL,
  UNIQUE (chat_jid, replay_key)
) STRICT;
CREATE INDEX message_marks_by_message ON message_marks (chat_jid, message_id);
CREATE INDEX message_marks_by_time ON message_marks (at);

-- How many people are in a chat, where its platform says so.
ALTER TABLE chats ADD COLUMN members INTEGER CHECK (members >= 0);

-- Whether each platform is connected, as its channel said last.
CREATE TABLE channel_states (
  channel TEXT PRIMARY KEY CHECK (length(channel) BETWEEN 1 AND 64),
  state   TEXT NOT NULL CHECK (state IN ('connecting', 'connected', 'offline', 'refused')),
  why     TEXT,
  since   INTEGER NOT NULL
) STRICT;
