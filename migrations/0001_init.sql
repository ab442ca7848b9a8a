-- Instants are milliseconds since the Unix epoch, UTC. Words: src/README.md.

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE groups (
  folder     TEXT PRIMARY KEY CHECK (length(folder) BETWEEN 1 AND 64),
  name       TEXT NOT NULL,
  is_main    INTEGER NOT NULL DEFAULT 0 CHECK (is_main IN (0, 1)),
  trigger    TEXT NOT NULL,
  provider   TEXT,
  script     TEXT,
  image      TEXT,
  config     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(config)),
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX groups_one_main ON groups (is_main) WHERE is_main = 1;

CREATE TABLE chats (
  jid                   TEXT PRIMARY KEY CHECK (length(jid) BETWEEN 1 AND 512),
  channel               TEXT NOT NULL,
  name                  TEXT NOT NULL,
  kind                  TEXT NOT NULL CHECK (kind IN ('direct', 'group')),
  unknown_sender_policy TEXT NOT NULL DEFAULT 'request_approval'
                        CHECK (unknown_sender_policy IN ('strict', 'request_approval', 'public')),
  created_at            INTEGER NOT NULL
) STRICT;

CREATE TABLE wirings (
  id                     INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder           TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  chat_jid               TEXT NOT NULL REFERENCES chats (jid),
  engage_mode            TEXT NOT NULL CHECK (engage_mode IN ('pattern', 'mention', 'mention-sticky')),
  engage_pattern         TEXT,
  sender_scope           TEXT NOT NULL DEFAULT 'all' CHECK (sender_scope IN ('all', 'known')),
  ignored_message_policy TEXT NOT NULL DEFAULT 'drop' CHECK (ignored_message_policy IN ('drop', 'accumulate')),
  created_at             INTEGER NOT NULL,
  UNIQUE (group_folder, chat_jid),
  CHECK ((engage_mode = 'pattern') = (engage_pattern IS NOT NULL))
) STRICT;
CREATE INDEX wirings_by_chat ON wirings (chat_jid);

CREATE TABLE messages (
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  chat_jid        TEXT NOT NULL REFERENCES chats (jid),
  replay_key      TEXT NOT NULL,
  id              TEXT NOT NULL,
  thread          TEXT NOT NULL DEFAULT '',
  sender          TEXT NOT NULL,
  sender_name     TEXT NOT NULL,
  text            TEXT NOT NULL,
  at              INTEGER,
  received_at     INTEGER NOT NULL,
  from_me         INTEGER NOT NULL CHECK (from_me IN (0, 1)),
  bot             INTEGER NOT NULL CHECK (bot IN (0, 1)),
  mentioned       INTEGER NOT NULL CHECK (mentioned IN (0, 1)),
  reply_to_id     TEXT,
  reply_to_text   TEXT,
  reply_to_sender TEXT,
  UNIQUE (chat_jid, replay_key)
) STRICT;

CREATE INDEX messages_by_chat ON messages (chat_jid, seq);

-- The unit of order, of cursor and of session: group + chat + thread ('' is none).
CREATE TABLE lanes (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  chat_jid     TEXT NOT NULL REFERENCES chats (jid),
  thread       TEXT NOT NULL DEFAULT '',
  cursor       INTEGER NOT NULL DEFAULT 0,
  generation   INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
  session_id   TEXT CHECK (session_id IS NULL OR (length(session_id) BETWEEN 1 AND 64 AND session_id NOT GLOB '*[^A-Za-z0-9-]*')),
  rest_until   INTEGER,
  UNIQUE (group_folder, chat_jid, thread)
) STRICT;

-- A message as one wiring sees it. `n` is given when the row is made; `verdict` when it was judged.
CREATE TABLE inbox (
  n       INTEGER PRIMARY KEY AUTOINCREMENT,
  lane_id INTEGER NOT NULL REFERENCES lanes (id) ON DELETE CASCADE,
  seq     INTEGER NOT NULL REFERENCES messages (seq),
  verdict TEXT CHECK (verdict IN ('wake', 'context', 'ignore', 'held')),
  rule    TEXT,
  reason  TEXT,
  UNIQUE (lane_id, seq),
  CHECK ((verdict IS NULL) = (rule IS NULL))
) STRICT;
CREATE INDEX inbox_by_lane ON inbox (lane_id, n) WHERE verdict IN ('wake', 'context');
CREATE INDEX inbox_waking ON inbox (lane_id, n) WHERE verdict = 'wake';
CREATE INDEX inbox_unjudged ON inbox (n) WHERE verdict IS NULL;
CREATE INDEX inbox_by_message ON inbox (seq);

CREATE TABLE runs (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  lane_id      INTEGER REFERENCES lanes (id) ON DELETE SET NULL,
  chat_jid     TEXT NOT NULL,
  thread       TEXT NOT NULL DEFAULT '',
  kind         TEXT NOT NULL CHECK (kind IN ('message', 'task', 'heartbeat')),
  source       TEXT NOT NULL,
  slot         INTEGER,
  attempt      INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1),
  status       TEXT NOT NULL CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  owner        TEXT,
  sandbox      TEXT NOT NULL,
  container    TEXT,
  generation   INTEGER NOT NULL,
  protocol     INTEGER,
  last_seq     INTEGER NOT NULL DEFAULT 0 CHECK (last_seq >= 0),
  created_at   INTEGER NOT NULL,
  started_at   INTEGER,
  ready_at     INTEGER,
  closing_at   INTEGER,
  deferred     INTEGER NOT NULL DEFAULT 0 CHECK (deferred IN (0, 1)),
  handled_at   INTEGER,
  killed_at    INTEGER,
  ended_at     INTEGER,
  error        TEXT,
  CHECK ((ended_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'cancelled'))),
  CHECK (status <> 'running' OR container IS NOT NULL),
  CHECK (kind = 'message' OR slot IS NOT NULL)
) STRICT;
-- One container per group and one active run per source, whatever races.
CREATE UNIQUE INDEX runs_one_per_group ON runs (group_folder) WHERE status IN ('queued', 'running');
CREATE UNIQUE INDEX runs_one_per_source ON runs (source) WHERE status IN ('queued', 'running');
-- A slot's attempt starts once.
CREATE UNIQUE INDEX runs_slot_once ON runs (source, slot, attempt) WHERE slot IS NOT NULL AND started_at IS NOT NULL;
CREATE INDEX runs_by_source ON runs (source, id);
CREATE INDEX runs_killed ON runs (lane_id, killed_at) WHERE killed_at IS NOT NULL;

-- What was given to an agent in one go: the lane's inbox rows from `first` to `last`.
CREATE TABLE batches (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  lane_id      INTEGER NOT NULL REFERENCES lanes (id) ON DELETE CASCADE,
  run_id       INTEGER NOT NULL REFERENCES runs (id),
  first        INTEGER NOT NULL,
  last         INTEGER NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('handed', 'claimed', 'done', 'returned', 'failed')),
  via          TEXT NOT NULL CHECK (via IN ('stdin', 'input')),
  tries        INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
  free_returns INTEGER NOT NULL DEFAULT 0 CHECK (free_returns >= 0),
  outbox_mark  INTEGER NOT NULL,
  claim_mark   INTEGER NOT NULL,
  handed_at    INTEGER NOT NULL,
  ended_at     INTEGER,
  UNIQUE (lane_id, first),
  CHECK (first <= last)
) STRICT;
CREATE INDEX batches_open ON batches (lane_id, id) WHERE state IN ('handed', 'claimed', 'returned');
CREATE INDEX batches_by_run ON batches (run_id);

CREATE TABLE outbox (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  chat_jid    TEXT NOT NULL,
  thread      TEXT NOT NULL DEFAULT '',
  text        TEXT NOT NULL CHECK (text <> ''),
  sender      TEXT,
  reply_to    TEXT,
  status      TEXT NOT NULL CHECK (status IN ('pending', 'sending', 'sent', 'unknown', 'failed')),
  attempts    INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  cause       TEXT NOT NULL,
  run_id      INTEGER REFERENCES runs (id),
  created_at  INTEGER NOT NULL,
  next_try_at INTEGER,
  sent_at     INTEGER,
  error       TEXT,
  CHECK ((sent_at IS NOT NULL) = (status = 'sent'))
) STRICT;
CREATE INDEX outbox_open ON outbox (chat_jid, id) WHERE status IN ('pending', 'sending', 'unknown');
CREATE INDEX outbox_by_run ON outbox (run_id, id);
CREATE INDEX outbox_by_chat ON outbox (chat_jid, id);

-- The proof that a command file was dealt with. Every outcome is one.
CREATE TABLE receipts (
  claim_id     INTEGER PRIMARY KEY,
  group_folder TEXT NOT NULL,
  box          TEXT NOT NULL,
  name         TEXT NOT NULL,
  type         TEXT,
  request_id   TEXT,
  run_id       INTEGER,
  origin       BLOB NOT NULL,
  digest       BLOB NOT NULL,
  outcome      TEXT NOT NULL CHECK (outcome IN ('applied', 'refused', 'malformed')),
  code         TEXT,
  reason       TEXT,
  hint         TEXT,
  reply        BLOB,
  replay_of    INTEGER,
  at           INTEGER NOT NULL,
  UNIQUE (group_folder, origin, digest),
  CHECK ((outcome = 'applied') = (code IS NULL))
) STRICT;
CREATE INDEX receipts_by_request ON receipts (group_folder, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX receipts_dead ON receipts (claim_id) WHERE outcome = 'malformed';
CREATE INDEX receipts_by_run ON receipts (run_id, claim_id) WHERE outcome = 'applied';

CREATE TABLE tasks (
  n              INTEGER PRIMARY KEY AUTOINCREMENT,
  id             TEXT NOT NULL UNIQUE CHECK (length(id) BETWEEN 1 AND 128),
  group_folder   TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  chat_jid       TEXT NOT NULL,
  prompt         TEXT NOT NULL,
  script         TEXT,
  schedule_type  TEXT NOT NULL CHECK (schedule_type IN ('cron', 'interval', 'once')),
  schedule_value TEXT NOT NULL,
  context_mode   TEXT NOT NULL CHECK (context_mode IN ('group', 'isolated')),
  catch_up       TEXT NOT NULL DEFAULT 'latest' CHECK (catch_up IN ('latest', 'all', 'skip')),
  output         TEXT NOT NULL DEFAULT 'history' CHECK (output IN ('history', 'chat')),
  status         TEXT NOT NULL CHECK (status IN ('active', 'paused', 'completed')),
  next_run       INTEGER,
  slot           INTEGER,
  tries          INTEGER NOT NULL DEFAULT 0,
  last_run       INTEGER,
  last_result    TEXT,
  created_at     INTEGER NOT NULL,
  CHECK (status <> 'completed' OR next_run IS NULL)
) STRICT;
CREATE INDEX tasks_due ON tasks (next_run) WHERE status = 'active' AND next_run IS NOT NULL;
CREATE INDEX tasks_due_by_group ON tasks (group_folder, next_run) WHERE status = 'active' AND next_run IS NOT NULL;
CREATE INDEX tasks_by_group ON tasks (group_folder, n);

CREATE TABLE archives (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  session_id   TEXT NOT NULL,
  name         TEXT NOT NULL,
  content      TEXT NOT NULL DEFAULT '',
  archived_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX archives_by_group ON archives (group_folder, id);
