-- Who speaks, who decides, and what was not heard.

-- `channel:handle`, as messages name their senders.
CREATE TABLE users (
  id         TEXT PRIMARY KEY CHECK (length(id) BETWEEN 3 AND 512 AND instr(id, ':') > 1),
  name       TEXT NOT NULL,
  -- The chat in which they are asked; NULL: the one that their id names.
  dm_chat    TEXT,
  created_at INTEGER NOT NULL
) STRICT;

-- An owner is one everywhere; an admin everywhere (no group) or of one group.
CREATE TABLE roles (
  user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  role         TEXT NOT NULL CHECK (role IN ('owner', 'admin')),
  group_folder TEXT REFERENCES groups (folder) ON DELETE CASCADE,
  granted_by   TEXT NOT NULL,
  granted_at   INTEGER NOT NULL,
  CHECK (role = 'admin' OR group_folder IS NULL)
) STRICT;
CREATE UNIQUE INDEX roles_once ON roles (user_id, role, coalesce(group_folder, ''));

-- Whom a group knows. Owners and admins are members without a row.
CREATE TABLE members (
  user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  added_by     TEXT NOT NULL,
  added_at     INTEGER NOT NULL,
  PRIMARY KEY (user_id, group_folder)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_group ON members (group_folder, user_id);

-- Whoever sits at this machine's terminals owns it.
INSERT INTO users (id, name, dm_chat, created_at) VALUES ('local:me', 'me', 'local:main', unixepoch() * 1000);
INSERT INTO roles (user_id, role, group_folder, granted_by, granted_at) VALUES ('local:me', 'owner', NULL, 'init', unixepoch() * 1000);

-- What would have engaged an agent and was not heard: a row per chat, group, sender and rule. No group: none was wired.
CREATE TABLE dropped (
  chat_jid     TEXT NOT NULL,
  group_folder TEXT NOT NULL DEFAULT '',
  sender       TEXT NOT NULL,
  rule         TEXT NOT NULL,
  sender_name  TEXT NOT NULL,
  reason       TEXT NOT NULL,
  count        INTEGER NOT NULL DEFAULT 1 CHECK (count >= 1),
  first_at     INTEGER NOT NULL,
  last_at      INTEGER NOT NULL,
  last_seq     INTEGER NOT NULL,
  PRIMARY KEY (chat_jid, group_folder, sender, rule)
) STRICT, WITHOUT ROWID;

-- Since when a lane's agent listens without being addressed again (`mention-sticky`); NULL: it does not.
ALTER TABLE lanes ADD COLUMN sticky_at INTEGER;

-- Whether the platform divides the chat into threads.
ALTER TABLE chats ADD COLUMN threaded INTEGER NOT NULL DEFAULT 0 CHECK (threaded IN (0, 1));

-- Questions to whoever may answer them: is this sender to be heard, is this chat to be wired.
CREATE TABLE approvals (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  kind         TEXT NOT NULL CHECK (kind IN ('sender', 'channel')),
  chat_jid     TEXT NOT NULL REFERENCES chats (jid),
  -- Whom the card names: the first one who spoke.
  sender       TEXT NOT NULL,
  sender_name  TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'undeliverable')),
  -- Who was asked, and in which chat.
  approver     TEXT NOT NULL,
  card_chat    TEXT NOT NULL,
  -- The outbox row of the newest card.
  card         INTEGER,
  -- What can be chosen, a JSON array of {label, action}.
  options      TEXT NOT NULL CHECK (json_valid(options)),
  -- Who was asked to type a name for a new group.
  naming       TEXT,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  decided_at   INTEGER,
  decided_by   TEXT,
  decision     TEXT,
  CHECK ((decided_at IS NULL) = (state = 'pending'))
) STRICT;
CREATE UNIQUE INDEX approvals_one_per_sender ON approvals (chat_jid, sender) WHERE state = 'pending' AND kind = 'sender';
CREATE UNIQUE INDEX approvals_one_per_chat ON approvals (chat_jid) WHERE state = 'pending' AND kind = 'channel';
CREATE INDEX approvals_open_by_card ON approvals (card_chat) WHERE state = 'pending';
CREATE INDEX approvals_open_by_row ON approvals (card) WHERE state = 'pending';
CREATE INDEX approvals_by_chat ON approvals (chat_jid, id);

-- The messages that wait for the answer. No group: whichever the chat is wired to.
CREATE TABLE approval_messages (
  approval_id  INTEGER NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
  seq          INTEGER NOT NULL REFERENCES messages (seq),
  group_folder TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (approval_id, seq, group_folder)
) STRICT, WITHOUT ROWID;
CREATE INDEX approval_messages_by_seq ON approval_messages (seq);

-- What was done about a question, by whom: asked, asked again, chosen, tried without the right to, ended.
CREATE TABLE approval_events (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  approval_id INTEGER NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
  at          INTEGER NOT NULL,
  who         TEXT NOT NULL,
  what        TEXT NOT NULL,
  detail      TEXT
) STRICT;
CREATE INDEX approval_events_by_approval ON approval_events (approval_id, id);

-- What a card can be answered with, for channels that have buttons: a JSON array of labels.
ALTER TABLE outbox ADD COLUMN buttons TEXT CHECK (buttons IS NULL OR json_valid(buttons));

-- What waits for a person: few rows among very many.
CREATE INDEX inbox_held ON inbox (lane_id, n) WHERE verdict = 'held';
