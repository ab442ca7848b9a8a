-- The schema of a root, in rooms.
--
-- Instants are milliseconds since the Unix epoch, UTC; columns named `at` and `…_at` are such. Words: src/README.md.
-- Each room belongs to one half of the store, `talk` or `work`, or to neither (`src/store/README.md`); `tests/it/tidy/halves.rs`
-- reads the rooms here, and holds the SQL of the two halves apart.
-- Each table says its purpose, its writers (files of `src/store`), and the way its rows go. `Never` means as long as the root.
-- History is removed by `prune.rs` at the age of `limits.keep_days`, in an order that its own conditions give.
-- A state of three words or more is compared, not listed: SQLite builds a table in memory for each such `IN`, at each row written.

-- == neither: the root ==
-- Facts of the root itself.

-- Facts by name: the instance, its place, the last beat of the writer, the last change of the schema, marks of the audit.
-- Writer: meta.rs, audit.rs, work/tasks.rs, restored.rs, migrate.rs.
-- Pruned: never; a restore removes the instance and the place.
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

-- == talk: groups ==
-- The agents.

-- Agents, with their settings.
-- Writer: talk/groups.rs, talk/register.rs, moving/.
-- Pruned: by `g2 groups remove`, with all that refers to it.
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

-- Groups that were removed and whose mailbox may still be there. No group of that name is made before it is gone.
-- Writer: talk/groups.rs.
-- Pruned: once the mailbox is gone.
CREATE TABLE leaving (group_folder TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- == talk: platforms ==
-- Addresses, listeners, and the state of accounts.

-- Addresses on platforms, by their jid.
-- Writer: talk/chats.rs, talk/register.rs, moving/.
-- Pruned: of an account, unused ones, once these are too many (`talk/chats.rs`).
CREATE TABLE chats (
  jid                   TEXT PRIMARY KEY CHECK (length(jid) BETWEEN 1 AND 512),
  channel               TEXT NOT NULL,
  name                  TEXT NOT NULL,
  kind                  TEXT NOT NULL CHECK (kind IN ('direct', 'group')),
  unknown_sender_policy TEXT NOT NULL DEFAULT 'request_approval'
                        CHECK (unknown_sender_policy IN ('strict', 'request_approval', 'public')),
  created_at            INTEGER NOT NULL,
  -- Whether the platform divides the chat into threads.
  threaded              INTEGER NOT NULL DEFAULT 0 CHECK (threaded IN (0, 1)),
  -- Whether a group was ever wired to the chat: no wiring may then be a decision of a person.
  wired_before          INTEGER NOT NULL DEFAULT 0 CHECK (wired_before IN (0, 1)),
  -- The number of people in it, where the platform tells it.
  members               INTEGER CHECK (members >= 0),
  -- The new address of the chat: texts for the old one go to the new one.
  alias_of              TEXT CHECK (alias_of <> jid)
) STRICT;

-- Groups that listen in a chat, and to whom.
-- Writer: talk/groups.rs, talk/register.rs, talk/chats.rs, moving/.
-- Pruned: with its group, or by `g2 wirings remove`.
CREATE TABLE wirings (
  id                     INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder           TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  chat_jid               TEXT NOT NULL REFERENCES chats (jid),
  engage_mode            TEXT NOT NULL CHECK (engage_mode IN ('pattern', 'mention', 'mention-sticky')),
  engage_pattern         TEXT,
  sender_scope           TEXT NOT NULL DEFAULT 'all' CHECK (sender_scope IN ('all', 'known')),
  ignored_message_policy TEXT NOT NULL DEFAULT 'drop' CHECK (ignored_message_policy IN ('drop', 'accumulate')),
  created_at             INTEGER NOT NULL,
  -- The beginning of a message that mentions the agent in this chat; NULL: the trigger of the group.
  trigger                TEXT,
  UNIQUE (group_folder, chat_jid),
  CHECK ((engage_mode = 'pattern') = (engage_pattern IS NOT NULL))
) STRICT;
CREATE INDEX wirings_by_chat ON wirings (chat_jid);

CREATE TRIGGER wirings_are_remembered AFTER INSERT ON wirings
BEGIN
  UPDATE chats SET wired_before = 1 WHERE jid = new.chat_jid AND wired_before = 0;
END;

-- The state of each account: its connection, its lights both ways, a person's part in it, and its newest events.
-- Writer: talk/accounts.rs.
-- Pruned: by `g2 channels remove`.
CREATE TABLE channel_states (
  channel  TEXT PRIMARY KEY CHECK (length(channel) BETWEEN 1 AND 64),
  -- Of the connection.
  state    TEXT NOT NULL CHECK (state IN ('connecting', 'connected', 'offline', 'refused')),
  why      TEXT,
  since    INTEGER NOT NULL,
  inbound  TEXT NOT NULL DEFAULT 'unknown' CHECK (inbound IN ('ok', 'waiting', 'failing', 'refused', 'unknown')),
  outbound TEXT NOT NULL DEFAULT 'unknown' CHECK (outbound IN ('ok', 'waiting', 'failing', 'refused', 'unknown')),
  -- The part of a person in it.
  hint     TEXT,
  last_in  INTEGER,
  last_out INTEGER,
  -- The number of starts of its adapter.
  starts   INTEGER NOT NULL DEFAULT 0 CHECK (starts >= 0),
  -- Counts up when a person wants it started anew.
  wanted   INTEGER NOT NULL DEFAULT 0 CHECK (wanted >= 0)
) STRICT;

-- The places where adapters go on after a restart, in their own words. Written with the event that they came with.
-- Writer: talk/accounts.rs.
-- Pruned: by its adapter, and with its account.
CREATE TABLE channel_cursors (
  instance TEXT NOT NULL CHECK (length(instance) BETWEEN 1 AND 64),
  key      TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
  value    TEXT NOT NULL CHECK (length(value) <= 4096),
  PRIMARY KEY (instance, key)
) STRICT, WITHOUT ROWID;

-- How far a person has read a chat: the newest message and the newest row of the outbox that were on the screen.
-- Writer: talk/visits.rs.
-- Pruned: never; one row a person and chat.
CREATE TABLE visits (
  chat_jid TEXT NOT NULL,
  user_id  TEXT NOT NULL,
  message  INTEGER NOT NULL CHECK (message >= 0),
  said     INTEGER NOT NULL CHECK (said >= 0),
  at       INTEGER NOT NULL,
  PRIMARY KEY (chat_jid, user_id)
) STRICT, WITHOUT ROWID;

-- == talk: people ==
-- People, their rights, and people who were not heard.

-- People, by `channel:handle`, as messages name their senders.
-- Writer: talk/people.rs, talk/chats.rs, moving/.
-- Pruned: by `g2 users remove`.
CREATE TABLE users (
  id         TEXT PRIMARY KEY CHECK (length(id) BETWEEN 3 AND 512 AND instr(id, ':') > 1),
  name       TEXT NOT NULL,
  -- The chat in which they are asked; NULL: the one that their id names.
  dm_chat    TEXT,
  created_at INTEGER NOT NULL
) STRICT;
-- The user of the terminals of this machine owns it.
INSERT INTO users (id, name, dm_chat, created_at) VALUES ('local:me', 'me', 'local:main', unixepoch() * 1000);

-- Rights to decide. An owner is one everywhere; an admin everywhere (no group) or of one group.
-- Writer: talk/people.rs, moving/.
-- Pruned: with the person or the group, or by `g2 users role`.
CREATE TABLE roles (
  user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  role         TEXT NOT NULL CHECK (role IN ('owner', 'admin')),
  group_folder TEXT REFERENCES groups (folder) ON DELETE CASCADE,
  granted_by   TEXT NOT NULL,
  granted_at   INTEGER NOT NULL,
  CHECK (role = 'admin' OR group_folder IS NULL)
) STRICT;
CREATE UNIQUE INDEX roles_once ON roles (user_id, role, coalesce(group_folder, ''));
INSERT INTO roles (user_id, role, group_folder, granted_by, granted_at)
  VALUES ('local:me', 'owner', NULL, 'init', unixepoch() * 1000);

-- People that a group knows. Owners and admins are members without a row.
-- Writer: talk/people.rs, moving/.
-- Pruned: with the person or the group, or by `g2 members remove`.
CREATE TABLE members (
  user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  added_by     TEXT NOT NULL,
  added_at     INTEGER NOT NULL,
  PRIMARY KEY (user_id, group_folder)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_group ON members (group_folder, user_id);

-- Messages that would have engaged an agent and were not heard: a row per chat, group, sender and rule. No group: none was
-- wired.
-- Writer: talk/people.rs.
-- Pruned: by `prune.rs`, by `last_at`, and by `g2 dropped clear`.
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

-- == talk: approvals ==
-- Questions to people: is this sender to be heard, is this chat to be wired.

-- Questions, their cards and their answers.
-- Writer: talk/approvals/, moving/.
-- Pruned: by `prune.rs`, once closed; a no stays as long as it holds.
CREATE TABLE approvals (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  kind          TEXT NOT NULL CHECK (kind IN ('sender', 'channel')),
  chat_jid      TEXT NOT NULL REFERENCES chats (jid),
  -- The person that the card names: the first one who spoke.
  sender        TEXT NOT NULL,
  sender_name   TEXT NOT NULL,
  state         TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'undeliverable')),
  -- The person that was asked, and in which chat.
  approver      TEXT NOT NULL,
  card_chat     TEXT NOT NULL,
  -- The outbox row that was said last about it: the card, or the request for a name.
  card          INTEGER,
  -- The choices, a JSON array of {label, action}.
  options       TEXT NOT NULL CHECK (json_valid(options)),
  -- The person that was asked to type a name for a new group.
  naming        TEXT,
  created_at    INTEGER NOT NULL,
  expires_at    INTEGER NOT NULL,
  decided_at    INTEGER,
  decided_by    TEXT,
  -- The word of the answer, and apart from it the group that a chat was connected to.
  decision      TEXT,
  decided_group TEXT CHECK ((decision IS NULL OR decision IN ('allow', 'deny', 'connect', 'new', 'ignore'))
                AND (decided_group IS NOT NULL) = (decision IS 'connect')),
  CHECK ((decided_at IS NULL) = (state = 'pending')),
  CHECK (state IN ('approved', 'denied') = (decision IS NOT NULL)),
  CHECK (naming IS NULL OR state = 'pending')
) STRICT;
CREATE UNIQUE INDEX approvals_one_per_sender ON approvals (chat_jid, sender) WHERE state = 'pending' AND kind = 'sender';
CREATE UNIQUE INDEX approvals_one_per_chat ON approvals (chat_jid) WHERE state = 'pending' AND kind = 'channel';
CREATE INDEX approvals_open_by_card ON approvals (card_chat, id) WHERE state = 'pending';
CREATE INDEX approvals_open_by_row ON approvals (card) WHERE state = 'pending';
CREATE INDEX approvals_open_by_end ON approvals (expires_at) WHERE state IN ('pending', 'undeliverable');
CREATE INDEX approvals_by_chat ON approvals (chat_jid, id);

-- Messages that wait for the answer. No group: any that the chat is wired to.
-- Writer: talk/approvals/ask.rs.
-- Pruned: at the answer, and with the question.
CREATE TABLE approval_messages (
  approval_id  INTEGER NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
  seq          INTEGER NOT NULL REFERENCES messages (seq),
  group_folder TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (approval_id, seq, group_folder)
) STRICT, WITHOUT ROWID;
CREATE INDEX approval_messages_by_seq ON approval_messages (seq);

-- Steps of a question, with their author: asked, asked again, answered, tried without the right to, ended.
-- Writer: talk/approvals.rs.
-- Pruned: with the question.
CREATE TABLE approval_events (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  approval_id INTEGER NOT NULL REFERENCES approvals (id) ON DELETE CASCADE,
  at          INTEGER NOT NULL,
  who         TEXT NOT NULL,
  what        TEXT NOT NULL,
  detail      TEXT,
  -- The message that did it.
  seq         INTEGER
) STRICT;
CREATE INDEX approval_events_by_approval ON approval_events (approval_id, id);
CREATE INDEX approval_events_by_message ON approval_events (seq) WHERE seq IS NOT NULL;

-- == talk: messages ==
-- Messages that came in, and later acts on them.

-- Messages that came in.
-- Writer: talk/messages.rs, talk/restored.rs, moving/.
-- Pruned: by `prune.rs`, once every lane is through; the newest of each chat stays.
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
  -- The number of files beside it: a text without any is not looked up.
  files           INTEGER NOT NULL DEFAULT 0 CHECK (files >= 0),
  -- Written long before it came, while its channel was away: it wakes nobody.
  late            INTEGER NOT NULL DEFAULT 0 CHECK (late IN (0, 1)),
  -- The source of its words; NULL: its sender wrote it.
  origin          TEXT CHECK (origin = 'forwarded' OR origin = 'edited'),
  UNIQUE (chat_jid, replay_key)
) STRICT;
CREATE INDEX messages_by_chat ON messages (chat_jid, seq);
-- The messages of bots in one chat, newest first: the answers to an agent are counted, of one bot and of all.
CREATE INDEX messages_of_bots ON messages (chat_jid, seq) WHERE bot = 1;

-- Later acts of people on a message: a deletion, a reaction, a reaction taken back.
-- Writer: talk/chats.rs, moving/.
-- Pruned: by `prune.rs`, by age.
CREATE TABLE message_marks (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  chat_jid   TEXT NOT NULL REFERENCES chats (jid),
  replay_key TEXT NOT NULL,
  -- The id of the platform, of a message of theirs or of ours.
  message_id TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('deleted', 'reaction', 'reaction_gone')),
  sender     TEXT NOT NULL,
  reaction   TEXT NOT NULL DEFAULT '' CHECK (length(reaction) <= 64 AND (reaction = '') = (kind = 'deleted')),
  at         INTEGER NOT NULL,
  UNIQUE (chat_jid, replay_key)
) STRICT;
CREATE INDEX message_marks_by_message ON message_marks (chat_jid, message_id);
CREATE INDEX message_marks_by_time ON message_marks (at);

-- == talk: files ==
-- Files beside messages, both ways.

-- Files beside a message that came in, or beside a text that goes out.
-- Writer: talk/attachments.rs, talk/files.rs, moving/.
-- Pruned: with its message or its text.
CREATE TABLE attachments (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  seq          INTEGER REFERENCES messages (seq) ON DELETE CASCADE,
  outbox_id    INTEGER REFERENCES outbox (id) ON DELETE CASCADE,
  n            INTEGER NOT NULL CHECK (n >= 1),
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  kind         TEXT NOT NULL CHECK (kind = 'image' OR kind = 'document' OR kind = 'voice' OR kind = 'audio' OR kind = 'video'),
  type         TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 255),
  -- Whether the type is the word of its sender, and not told by its contents.
  claimed      INTEGER NOT NULL DEFAULT 1 CHECK (claimed IN (0, 1)),
  size         INTEGER NOT NULL CHECK (size >= 0),
  -- The file is `data/media/<first two digits>/<digest>`; NULL: it is missing, for the reason in `problem`.
  digest       BLOB CHECK (length(digest) = 32),
  problem      TEXT CHECK (length(problem) BETWEEN 1 AND 255),
  caption      TEXT CHECK (caption <> ''),
  seconds      INTEGER CHECK (seconds >= 0),
  -- The chat and the instant: a chat has a bound of bytes an hour.
  chat_jid     TEXT NOT NULL,
  at           INTEGER NOT NULL,
  -- The group whose command it came with, of one that goes out.
  group_folder TEXT,
  -- The result of the hook that reads files, such as the words of a voice message; or the reason why there is none.
  words        TEXT CHECK (words <> ''),
  unread       TEXT CHECK (length(unread) BETWEEN 1 AND 255),
  CHECK ((seq IS NULL) <> (outbox_id IS NULL)),
  CHECK ((digest IS NULL) <> (problem IS NULL))
) STRICT;
CREATE UNIQUE INDEX attachments_in ON attachments (seq, n) WHERE seq IS NOT NULL;
CREATE UNIQUE INDEX attachments_out ON attachments (outbox_id, n) WHERE outbox_id IS NOT NULL;

-- Bytes of files of each chat, minute by minute, both ways. The sum of the last hour is asked before each file and again as it
-- is queued.
-- Writer: talk/attachments.rs, the triggers below.
-- Pruned: by the triggers: of each chat the newest 128 minutes stay.
CREATE TABLE media_minutes (
  chat_jid TEXT NOT NULL,
  -- Since 1970.
  minute   INTEGER NOT NULL,
  -- A file counts as one block of the disk at least.
  bytes    INTEGER NOT NULL,
  PRIMARY KEY (chat_jid, minute)
) STRICT, WITHOUT ROWID;

-- A sender states the size of a file: none counts as more than a TiB. A clock that was wrong for a while may have left minutes
-- of another hour.
CREATE TRIGGER media_minute AFTER INSERT ON attachments BEGIN
  INSERT INTO media_minutes (chat_jid, minute, bytes) VALUES (new.chat_jid, new.at / 60000, min(max(new.size, 4096), 1 << 40))
  ON CONFLICT (chat_jid, minute) DO UPDATE SET bytes = min(bytes + excluded.bytes, 1 << 60);
  DELETE FROM media_minutes WHERE chat_jid = new.chat_jid
     AND minute < (SELECT minute FROM media_minutes WHERE chat_jid = new.chat_jid ORDER BY minute DESC LIMIT 1 OFFSET 127);
END;

-- A file that was fetched is longer or shorter than was told. Its minute may be gone.
CREATE TRIGGER media_minute_changed AFTER UPDATE OF size ON attachments WHEN new.size <> old.size BEGIN
  UPDATE media_minutes SET bytes = max(bytes + min(max(new.size, 4096), 1 << 40) - min(max(old.size, 4096), 1 << 40), 0)
   WHERE chat_jid = old.chat_jid AND minute = old.at / 60000;
END;

-- A row that is still there goes with the last file of its minute.
CREATE TRIGGER media_minute_gone AFTER DELETE ON attachments BEGIN
  UPDATE media_minutes SET bytes = bytes - min(max(old.size, 4096), 1 << 40)
   WHERE chat_jid = old.chat_jid AND minute = old.at / 60000;
  DELETE FROM media_minutes WHERE chat_jid = old.chat_jid AND minute = old.at / 60000 AND bytes <= 0;
END;

-- Work left with a file: it is fetched, or it is there and a hook reads it.
-- Writer: talk/files.rs.
-- Pruned: once done or given up.
CREATE TABLE file_work (
  attachment INTEGER PRIMARY KEY REFERENCES attachments (id) ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  step       TEXT NOT NULL CHECK (step IN ('fetch', 'read')),
  -- Its place, in the words of its channel.
  what       TEXT CHECK (length(what) BETWEEN 1 AND 4096),
  -- The instant at which it is given up; NULL: nobody has heard its message.
  until      INTEGER,
  tries      INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
  next_at    INTEGER,
  CHECK (step = 'read' OR what IS NOT NULL)
) STRICT;
CREATE INDEX file_work_by_message ON file_work (seq);
CREATE INDEX file_work_wanted ON file_work (attachment) WHERE until IS NOT NULL;

-- Rows of the inbox that are judged once no work is left with the files of their message. Later rows of their lane wait behind
-- them.
-- Writer: talk/files.rs.
-- Pruned: with that work.
CREATE TABLE file_holds (
  n       INTEGER PRIMARY KEY REFERENCES inbox (n) ON DELETE CASCADE,
  lane_id INTEGER NOT NULL,
  seq     INTEGER NOT NULL
) STRICT;
CREATE INDEX file_holds_by_lane ON file_holds (lane_id, n);
CREATE INDEX file_holds_by_message ON file_holds (seq);

-- == talk: lanes ==
-- Messages on the way to agents.

-- The units of order, of cursor and of session: group + chat + thread ('' is none).
-- Writer: talk/lanes.rs, talk/messages.rs, talk/groups.rs, talk/chats.rs, crossing/handover.rs, crossing/due.rs, moving/.
-- Pruned: with its group.
CREATE TABLE lanes (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  chat_jid     TEXT NOT NULL REFERENCES chats (jid),
  thread       TEXT NOT NULL DEFAULT '',
  cursor       INTEGER NOT NULL DEFAULT 0,
  -- The instant since which the agent listens without being addressed again (`mention-sticky`); NULL: it does not.
  sticky_at    INTEGER,
  UNIQUE (group_folder, chat_jid, thread)
) STRICT;
CREATE INDEX lanes_by_chat ON lanes (chat_jid);

-- Messages as one wiring sees them. `n` is given when the row is made, `verdict` when it was judged.
-- Writer: talk/messages.rs, talk/edits.rs, talk/approvals/, talk/restored.rs, crossing/skip.rs, restored.rs, moving/.
-- Pruned: with its message or its lane.
CREATE TABLE inbox (
  n       INTEGER PRIMARY KEY AUTOINCREMENT,
  lane_id INTEGER NOT NULL REFERENCES lanes (id) ON DELETE CASCADE,
  seq     INTEGER NOT NULL REFERENCES messages (seq),
  verdict TEXT CHECK (verdict = 'wake' OR verdict = 'context' OR verdict = 'ignore' OR verdict = 'held'),
  rule    TEXT,
  reason  TEXT,
  UNIQUE (lane_id, seq),
  CHECK ((verdict IS NULL) = (rule IS NULL))
) STRICT;
CREATE INDEX inbox_by_lane ON inbox (lane_id, n) WHERE verdict IN ('wake', 'context');
CREATE INDEX inbox_waking ON inbox (lane_id, n) WHERE verdict = 'wake';
CREATE INDEX inbox_unjudged ON inbox (n) WHERE verdict IS NULL;
CREATE INDEX inbox_by_message ON inbox (seq);
CREATE INDEX inbox_held ON inbox (lane_id, n) WHERE verdict = 'held';
CREATE INDEX inbox_restored ON inbox (n) WHERE rule = 'restored';

-- == talk: outbox ==
-- Texts for chats.

-- Texts for chats, with their state there.
-- Writer: talk/outbox.rs, talk/chats.rs, talk/restored.rs, restored.rs, moving/.
-- Pruned: by `prune.rs`, once sent and its run is through.
CREATE TABLE outbox (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  chat_jid     TEXT NOT NULL,
  thread       TEXT NOT NULL DEFAULT '',
  text         TEXT NOT NULL,
  sender       TEXT,
  reply_to     TEXT,
  status       TEXT NOT NULL
               CHECK (status = 'sent' OR status = 'pending' OR status = 'sending' OR status = 'unknown' OR status = 'failed'),
  attempts     INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  cause        TEXT NOT NULL,
  run_id       INTEGER REFERENCES runs (id),
  created_at   INTEGER NOT NULL,
  next_try_at  INTEGER,
  sent_at      INTEGER,
  error        TEXT,
  -- The answers of a card, for channels that have buttons: a JSON array of {label, press}.
  buttons      TEXT CHECK (buttons IS NULL OR json_valid(buttons)),
  -- The group whose command or record had it said; NULL: the host or a person said it.
  group_folder TEXT,
  -- The record, the command or the end that it comes from: it is said once. NULL: the host or a person said it.
  said_key     TEXT CHECK (length(said_key) BETWEEN 1 AND 255),
  files        INTEGER NOT NULL DEFAULT 0 CHECK (files >= 0 AND (files > 0 OR text <> '')),
  -- The instant since which the platform may have the part that is sent next, until that is known.
  begun_at     INTEGER,
  -- A text that is said before it is whole, and whether it is whole now.
  growth       TEXT CHECK (growth IN ('growing', 'grown')),
  -- A restore held it back until a person decides.
  held_back    INTEGER NOT NULL DEFAULT 0 CHECK (held_back IN (0, 1)),
  CHECK ((sent_at IS NOT NULL) = (status = 'sent'))
) STRICT;
CREATE INDEX outbox_open ON outbox (chat_jid, id) WHERE status = 'pending' OR status = 'sending' OR status = 'unknown';
CREATE INDEX outbox_by_chat ON outbox (chat_jid, id);
CREATE INDEX outbox_failed ON outbox (created_at) WHERE status = 'failed';
CREATE INDEX outbox_answers ON outbox (sent_at) WHERE status = 'sent' AND cause GLOB 'run [0-9]*';
CREATE UNIQUE INDEX outbox_once ON outbox (said_key) WHERE said_key IS NOT NULL;
CREATE INDEX outbox_growing ON outbox (run_id) WHERE growth = 'growing';
CREATE INDEX outbox_held_back ON outbox (id) WHERE held_back = 1;
CREATE INDEX outbox_by_run ON outbox (run_id, id) WHERE run_id IS NOT NULL;

-- Parts of a text that a platform takes in pieces, with the id that the platform gave each. The text of a piece is dropped once
-- the platform has it.
-- Writer: talk/outbox.rs, moving/.
-- Pruned: with its text.
CREATE TABLE outbox_parts (
  outbox_id   INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
  part        INTEGER NOT NULL CHECK (part >= 1),
  chat_jid    TEXT NOT NULL,
  -- NULL where the row's own text is the only part.
  text        TEXT CHECK (text <> ''),
  platform_id TEXT CHECK (length(platform_id) BETWEEN 1 AND 512),
  sent_at     INTEGER,
  -- Its looks, beside its words: ranges, or HTML. It is sent with the same looks each time.
  looks       TEXT CHECK (text IS NOT NULL OR looks IS NULL),
  -- The files that go with it, from the first to the last; such a part may have no text.
  first_file  INTEGER CHECK (first_file >= 1),
  last_file   INTEGER CHECK (last_file >= first_file AND (last_file IS NULL) = (first_file IS NULL)),
  PRIMARY KEY (outbox_id, part),
  CHECK ((platform_id IS NULL) = (sent_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_parts_by_id ON outbox_parts (chat_jid, platform_id) WHERE platform_id IS NOT NULL;

-- Further ids of a part that is several messages on its platform; the first stands with the part.
-- Writer: talk/outbox.rs, moving/.
-- Pruned: with its text.
CREATE TABLE outbox_more_ids (
  chat_jid    TEXT NOT NULL,
  platform_id TEXT NOT NULL CHECK (length(platform_id) BETWEEN 1 AND 512),
  outbox_id   INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
  PRIMARY KEY (chat_jid, platform_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_more_ids_by_row ON outbox_more_ids (outbox_id);

-- Cards whose question is closed, or that another card replaces, until the platform shows that or it is given up.
-- Writer: the triggers below.
-- Pruned: by `talk/amends.rs`, once shown or given up.
CREATE TABLE amends (
  outbox_id   INTEGER PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
  approval_id INTEGER NOT NULL
) STRICT;

CREATE TRIGGER amends_closed AFTER UPDATE OF state ON approvals
  WHEN old.state = 'pending' AND new.state IN ('approved', 'denied', 'expired') BEGIN
  INSERT OR IGNORE INTO amends (outbox_id, approval_id) SELECT id, new.id FROM outbox WHERE id = new.card AND buttons IS NOT NULL;
END;
CREATE TRIGGER amends_another AFTER UPDATE OF card ON approvals WHEN new.card IS NOT old.card BEGIN
  INSERT OR IGNORE INTO amends (outbox_id, approval_id) SELECT id, new.id FROM outbox WHERE id = old.card AND buttons IS NOT NULL;
END;

-- Our reaction to a message that an agent has in hand, from before it is put there until it is taken away.
-- Writer: talk/signs.rs.
-- Pruned: once taken away.
CREATE TABLE signs (
  batch      INTEGER PRIMARY KEY,
  chat_jid   TEXT NOT NULL,
  message_id TEXT NOT NULL CHECK (length(message_id) BETWEEN 1 AND 512),
  sign       TEXT NOT NULL CHECK (length(sign) BETWEEN 1 AND 16),
  -- The id of the reaction on the platform, where it has one.
  sign_id    TEXT CHECK (length(sign_id) BETWEEN 1 AND 512)
) STRICT;

-- == work: commands ==
-- Commands of agents, as files in mailboxes.

-- Proofs that command files were dealt with. Every outcome is one.
-- Writer: work/receipts.rs, work/receipts/.
-- Pruned: by `prune.rs`, after 30 days at least; the newest one stays.
CREATE TABLE receipts (
  claim_id     INTEGER PRIMARY KEY,
  group_folder TEXT NOT NULL,
  box          TEXT NOT NULL,
  name         TEXT NOT NULL,
  type         TEXT,
  request_id   TEXT,
  -- The run of the group when the file was claimed.
  run_id       INTEGER,
  -- The file. On ext4 and XFS it begins with the inode, highest byte first: files made one after the other are neighbours in
  -- the index.
  origin       BLOB NOT NULL,
  digest       BLOB NOT NULL,
  outcome      TEXT NOT NULL CHECK (outcome = 'applied' OR outcome = 'refused' OR outcome = 'malformed'),
  code         TEXT,
  reason       TEXT,
  hint         TEXT,
  -- A long one is let go of once the group has too much of them.
  reply        BLOB,
  replay_of    INTEGER,
  at           INTEGER NOT NULL,
  -- The last change of the file in its box, and the instant at which it was taken out; NULL: nobody saw it.
  written_at   INTEGER,
  claimed_at   INTEGER,
  -- The id of the run's token that the command carried and that was found good; NULL: its mount alone names its group.
  token_id     TEXT,
  UNIQUE (group_folder, origin, digest),
  CHECK ((outcome = 'applied') = (code IS NULL))
) STRICT;
CREATE INDEX receipts_by_request ON receipts (group_folder, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX receipts_dead ON receipts (claim_id) WHERE outcome = 'malformed';
CREATE INDEX receipts_of_token ON receipts (CAST(token_id AS INTEGER)) WHERE token_id IS NOT NULL;
-- The weight of the long replies of each group, which are lists.
CREATE INDEX receipts_long ON receipts (group_folder, claim_id, length(reply)) WHERE length(reply) >= 16384;
CREATE INDEX receipts_refused ON receipts (claim_id) WHERE outcome = 'refused';
-- The commands of a run, all of them and those that were applied.
CREATE INDEX receipts_by_run ON receipts (run_id, outcome) WHERE run_id IS NOT NULL;
-- Replies that stay in their box at the begin of a run: those to commands of no run.
CREATE INDEX receipts_of_no_run ON receipts (group_folder, claim_id) WHERE run_id IS NULL AND request_id IS NOT NULL;

-- Commands that are kept from being claimed: all of a group ('' and no name), or one file of a box by the bytes of its name.
-- Writer: work/by_hand.rs, moving/.
-- Pruned: at its release, or with its group.
CREATE TABLE holds (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  box          TEXT NOT NULL DEFAULT '' CHECK (box IN ('', 'messages', 'tasks')),
  name         BLOB NOT NULL DEFAULT x'',
  reason       TEXT,
  at           INTEGER NOT NULL,
  -- Whether the daemon held the group, which it died over again and again.
  aside        INTEGER NOT NULL DEFAULT 0 CHECK (aside IN (0, 1) AND (aside = 0 OR box = '')),
  UNIQUE (group_folder, box, name),
  CHECK ((box = '') = (length(name) = 0))
) STRICT;

-- Decisions of people about a claim before it was settled: it is an earlier one tried again, or it is dropped.
-- Writer: work/by_hand.rs.
-- Pruned: by `prune.rs`, with both of its receipts.
CREATE TABLE by_hand (
  claim_id    INTEGER PRIMARY KEY,
  retry_of    INTEGER,
  drop_reason TEXT,
  at          INTEGER NOT NULL,
  CHECK ((retry_of IS NULL) <> (drop_reason IS NULL))
) STRICT;
-- A command is tried again once; the next try is one of that try.
CREATE UNIQUE INDEX by_hand_once ON by_hand (retry_of) WHERE retry_of IS NOT NULL;

-- The last claim of the earlier groups of a name: commands up to it are theirs.
-- Writer: the trigger below, work/by_hand.rs.
-- Pruned: never; one row a name.
CREATE TABLE begins (
  group_folder TEXT PRIMARY KEY,
  after_claim  INTEGER NOT NULL CHECK (after_claim >= 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER begins_with_its_group AFTER INSERT ON groups BEGIN
  INSERT INTO begins (group_folder, after_claim) VALUES (new.folder,
    max(coalesce((SELECT max(claim_id) FROM receipts), 0), coalesce((SELECT max(claim_id) FROM by_hand), 0)))
  ON CONFLICT (group_folder) DO UPDATE SET after_claim = excluded.after_claim;
END;

-- == work: runs ==
-- Runs of containers.

-- The ledger of containers.
-- Writer: crossing/, work/runs.rs, work/runs/, work/housekeeping.rs, restored.rs, moving/.
-- Pruned: by `prune.rs`, once nothing kept names it.
CREATE TABLE runs (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  lane_id      INTEGER REFERENCES lanes (id) ON DELETE SET NULL,
  chat_jid     TEXT NOT NULL,
  thread       TEXT NOT NULL DEFAULT '',
  kind         TEXT NOT NULL CHECK (kind = 'message' OR kind = 'task' OR kind = 'heartbeat'),
  -- `task:ID` or `lane:ID`, of its group.
  source       TEXT NOT NULL,
  slot         INTEGER,
  attempt      INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1),
  status       TEXT NOT NULL CHECK (status = 'running' OR status = 'succeeded' OR status = 'queued' OR status = 'failed'
               OR status = 'cancelled'),
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
  -- The beginning of the words of a task's run; where it is shorter than `result_bytes`, the whole is in
  -- `data/results/<run>.txt`.
  result       TEXT,
  -- The newest row of the outbox that belongs to a batch that the run has finished.
  answered     INTEGER NOT NULL DEFAULT 0,
  -- The parts of a long answer that are said already, while its record is being applied: each is a transaction.
  said_parts   INTEGER NOT NULL DEFAULT 0 CHECK (said_parts >= 0),
  result_bytes INTEGER NOT NULL DEFAULT 0 CHECK (result_bytes >= 0),
  -- Of the files for people in `data/runs/<run>/`. They are kept as long as the row is, and count as it does.
  files_bytes  INTEGER NOT NULL DEFAULT 0 CHECK (files_bytes >= 0),
  -- A person wants it ended: the person, the way, and the fate of the work in hand. A restart goes on with it.
  stop_by      TEXT CHECK (length(stop_by) BETWEEN 1 AND 200),
  stop_when    TEXT CHECK (stop_when IN ('in_order', 'now')),
  stop_then    TEXT CHECK (stop_then IN ('give_up', 'ask_again') AND (stop_by IS NULL) = (stop_when IS NULL)
               OR stop_then IS NULL AND stop_by IS NULL),
  -- The session that it began with, and whether its end counts against that.
  wake         TEXT CHECK (wake = 'resume' OR wake = 'first' OR wake = 'fresh'),
  fresh_why    TEXT CHECK (fresh_why = 'not_resumed' OR fresh_why = 'crash_loop' OR fresh_why = 'silent'
               OR fresh_why = 'unfinished'),
  died         INTEGER NOT NULL DEFAULT 0 CHECK (died IN (0, 1)),
  CHECK ((ended_at IS NOT NULL) = (status = 'succeeded' OR status = 'failed' OR status = 'cancelled')),
  CHECK (status <> 'running' OR container IS NOT NULL),
  CHECK (kind = 'message' OR slot IS NOT NULL)
) STRICT;
-- One container per group and one active run, whatever races.
CREATE UNIQUE INDEX runs_one_per_group ON runs (group_folder) WHERE status IN ('queued', 'running');
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;
-- A slot's attempt starts once.
CREATE UNIQUE INDEX runs_slot_once ON runs (group_folder, source, slot, attempt)
  WHERE slot IS NOT NULL AND started_at IS NOT NULL;
CREATE INDEX runs_by_source ON runs (source, group_folder, id);
CREATE INDEX runs_failed ON runs (ended_at) WHERE status = 'failed';
-- Kills are counted of a source.
CREATE INDEX runs_killed ON runs (group_folder, source, killed_at) WHERE killed_at IS NOT NULL;
-- How long the containers of a group ran in a day.
CREATE INDEX runs_by_group_end ON runs (group_folder, ended_at) WHERE ended_at IS NOT NULL;
-- Runs that have files, for housekeeping.
CREATE INDEX runs_with_files ON runs (group_folder, ended_at) WHERE files_bytes > 0;
CREATE INDEX runs_by_group ON runs (group_folder, id);

-- Inbox rows of a lane from `first` to `last` that were given to an agent in one go.
-- Writer: crossing/handover.rs, crossing/chat_commands.rs, crossing/skip.rs, work/runs.rs, work/runs/, restored.rs.
-- Pruned: by `prune.rs`, after the messages of its agent.
CREATE TABLE batches (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  lane_id      INTEGER NOT NULL REFERENCES lanes (id) ON DELETE CASCADE,
  run_id       INTEGER NOT NULL REFERENCES runs (id),
  first        INTEGER NOT NULL,
  last         INTEGER NOT NULL,
  state        TEXT NOT NULL
               CHECK (state = 'handed' OR state = 'claimed' OR state = 'done' OR state = 'returned' OR state = 'failed'),
  via          TEXT NOT NULL CHECK (via IN ('stdin', 'input')),
  tries        INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
  free_returns INTEGER NOT NULL DEFAULT 0 CHECK (free_returns >= 0),
  outbox_mark  INTEGER NOT NULL,
  claim_mark   INTEGER NOT NULL,
  handed_at    INTEGER NOT NULL,
  ended_at     INTEGER,
  -- Whether the answer was in <internal> blocks altogether, with no word for the chat.
  unsaid       INTEGER NOT NULL DEFAULT 0 CHECK (unsaid IN (0, 1)),
  -- Texts about a batch that has ended: those of its run in the outbox above `said_from` and up to `said_to`.
  said_from    INTEGER,
  said_to      INTEGER CHECK (said_to IS NULL OR said_to >= said_from),
  UNIQUE (lane_id, first),
  CHECK (first <= last)
) STRICT;
CREATE INDEX batches_open ON batches (lane_id, id) WHERE state = 'handed' OR state = 'claimed' OR state = 'returned';
CREATE INDEX batches_by_run ON batches (run_id);
CREATE INDEX batches_failed ON batches (ended_at) WHERE state = 'failed';

-- Tools that agents began to use, by the record of their run that tells it.
-- Writer: work/runs/tool.rs.
-- Pruned: with its run; of each run the newest 1 000 stay.
CREATE TABLE tools (
  run_id       INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  n            INTEGER NOT NULL CHECK (n > 0),
  group_folder TEXT NOT NULL,
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  at           INTEGER NOT NULL,
  PRIMARY KEY (run_id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX tools_by_time ON tools (at);

-- == work: sessions ==
-- Conversations of agents.

-- Lanes as work sees them, from the first work of an agent there: the session and its number, the rest after a failure, failed
-- beginnings.
-- Writer: crossing/, work/sessions.rs, work/runs/, work/hindrances.rs, restored.rs, moving/.
-- Pruned: with its lane.
CREATE TABLE sessions (
  lane_id        INTEGER PRIMARY KEY REFERENCES lanes (id) ON DELETE CASCADE,
  group_folder   TEXT NOT NULL,
  chat_jid       TEXT NOT NULL,
  thread         TEXT NOT NULL,
  generation     INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
  session_id     TEXT CHECK (session_id IS NULL OR (length(session_id) BETWEEN 1 AND 64
                 AND session_id NOT GLOB '*[^A-Za-z0-9-]*')),
  rest_until     INTEGER,
  failed_resumes INTEGER NOT NULL DEFAULT 0 CHECK (failed_resumes >= 0),
  -- The reason why the next session begins afresh.
  fresh_why      TEXT CHECK (fresh_why = 'not_resumed' OR fresh_why = 'crash_loop' OR fresh_why = 'silent'
                 OR fresh_why = 'unfinished'),
  -- Its last use.
  active_at      INTEGER,
  -- A turn of it was finished: there is a conversation to lose.
  proven         INTEGER NOT NULL DEFAULT 0 CHECK (proven IN (0, 1))
) STRICT;
CREATE INDEX sessions_by_group ON sessions (group_folder, lane_id);

-- Sessions that are kept, each under one name or several, as it was when it was archived.
-- Writer: work/sessions.rs, moving/.
-- Pruned: by a person, when it goes on, and the oldest of a group above its bounds.
CREATE TABLE archives (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  session_id   TEXT NOT NULL,
  name         TEXT NOT NULL,
  content      TEXT NOT NULL DEFAULT '',
  archived_at  INTEGER NOT NULL,
  -- The text that the index of its group is to have seen.
  revision     INTEGER NOT NULL DEFAULT 1
) STRICT;
-- The order of lists and searches, without the texts: one is up to a MiB.
CREATE INDEX archives_newest ON archives (group_folder, archived_at, id, revision);
CREATE UNIQUE INDEX archives_once ON archives (group_folder, session_id, name);

-- == work: tasks ==
-- Scheduled prompts.

-- Scheduled prompts with their rests and failures, those of `HEARTBEAT.md` among them. An id is unique within its group.
-- Writer: work/tasks.rs, work/heartbeat.rs, work/slots.rs, work/runs/, work/receipts/effects/task.rs, work/hindrances.rs,
-- crossing/due.rs, restored.rs, moving/.
-- Pruned: by its group's agent or a person, and with its group.
CREATE TABLE tasks (
  -- No number is given twice, whatever was removed meanwhile.
  n                  INTEGER PRIMARY KEY AUTOINCREMENT,
  id                 TEXT NOT NULL CHECK (length(id) BETWEEN 1 AND 128),
  group_folder       TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  chat_jid           TEXT NOT NULL,
  prompt             TEXT NOT NULL,
  script             TEXT,
  schedule_type      TEXT NOT NULL CHECK (schedule_type = 'cron' OR schedule_type = 'interval' OR schedule_type = 'once'),
  schedule_value     TEXT NOT NULL,
  context_mode       TEXT NOT NULL CHECK (context_mode IN ('group', 'isolated')),
  catch_up           TEXT NOT NULL DEFAULT 'latest' CHECK (catch_up = 'latest' OR catch_up = 'all' OR catch_up = 'skip'),
  output             TEXT NOT NULL DEFAULT 'history' CHECK (output IN ('history', 'chat')),
  status             TEXT NOT NULL CHECK (status = 'active' OR status = 'paused' OR status = 'completed'),
  next_run           INTEGER,
  slot               INTEGER,
  tries              INTEGER NOT NULL DEFAULT 0,
  last_run           INTEGER,
  last_result        TEXT,
  created_at         INTEGER NOT NULL,
  -- Its weight: the texts that its group wrote of it.
  bytes              INTEGER NOT NULL GENERATED ALWAYS AS (length(CAST(prompt AS BLOB)) + coalesce(length(CAST(script AS BLOB)),
                     0) + length(CAST(schedule_value AS BLOB))) STORED,
  -- While it rests, its `next_run` is the end of the rest, and `slot` the occurrence that is put off until then.
  rest_until         INTEGER,
  -- Occurrences that failed in a row, whether its chat was told, and the reason why the host paused it.
  failures           INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
  failures_told      INTEGER NOT NULL DEFAULT 0 CHECK (failures_told IN (0, 1)),
  paused_for         TEXT,
  -- The age up to which a slot is made up for; NULL: 7 days.
  catch_up_window_ms INTEGER CHECK (catch_up_window_ms > 0),
  -- The missed slot that `next_run` makes up for; NULL: `next_run` is the slot.
  next_slot          INTEGER,
  -- The outcome of each slot up to here is known.
  accounted          INTEGER,
  -- A slot that was due already when somebody asked for it: it is never too late.
  asked_slot         INTEGER,
  -- Somebody asked for it, or it stands in the group's `HEARTBEAT.md`, with which it comes and goes.
  origin             TEXT NOT NULL DEFAULT 'asked' CHECK (origin IN ('asked', 'heartbeat')),
  -- Since then the host could not have an occurrence run; `next_run` is the next try, and `slot` the occurrence. NULL: none
  -- waits for that.
  held_up_since      INTEGER,
  -- How often the occurrence came back at no cost, as the daemon died during its run.
  free_returns       INTEGER NOT NULL DEFAULT 0 CHECK (free_returns >= 0),
  UNIQUE (id, group_folder),
  CHECK (status <> 'completed' OR next_run IS NULL)
) STRICT;
CREATE INDEX tasks_due ON tasks (next_run) WHERE status = 'active' AND next_run IS NOT NULL;
CREATE INDEX tasks_due_by_group ON tasks (group_folder, next_run) WHERE status = 'active' AND next_run IS NOT NULL;
CREATE INDEX tasks_by_group ON tasks (group_folder, n, bytes);
-- The weight of all tasks, newest first, without their texts.
CREATE INDEX tasks_by_number ON tasks (n, bytes, group_folder);
CREATE INDEX tasks_in_trouble ON tasks (n) WHERE rest_until IS NOT NULL OR paused_for IS NOT NULL;
CREATE INDEX tasks_of_heartbeat ON tasks (group_folder) WHERE origin = 'heartbeat';

-- Slots of a task that did not run, with the reason. Those that ran are in `runs`. Alike ones in a row, with no run between,
-- are one row.
-- Writer: work/slots.rs.
-- Pruned: by `prune.rs`, by age.
CREATE TABLE slots (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  task         TEXT NOT NULL,
  first        INTEGER NOT NULL,
  last         INTEGER NOT NULL,
  count        INTEGER NOT NULL CHECK (count >= 1),
  -- Not all of them were counted.
  at_least     INTEGER NOT NULL DEFAULT 0 CHECK (at_least IN (0, 1)),
  outcome      TEXT NOT NULL CHECK (outcome IN ('skipped', 'missed')),
  reason       TEXT NOT NULL CHECK (reason IN ('previous run still queued or running', 'resting after a failure', 'paused',
               'host down', 'budget used up', 'outside the window', 'more than 24 were missed')),
  -- The newest run of the task when they were noted; 0: none.
  after_run    INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  CHECK (first <= last)
) STRICT;
CREATE INDEX slots_by_task ON slots (group_folder, task, id);
CREATE INDEX slots_by_time ON slots (at);

-- Groups and tasks whose newest runs failed, and how often in a row: a task's, or with '' all of a group.
-- Writer: work/failing.rs.
-- Pruned: at the next good run, and with its group.
CREATE TABLE failing (
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  task         TEXT NOT NULL,
  times        INTEGER NOT NULL CHECK (times >= 1),
  run_id       INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  PRIMARY KEY (group_folder, task)
) STRICT, WITHOUT ROWID;

-- == work: use ==
-- Tokens and money, and their bounds.

-- Requests of runs to a model, through the gateway, by quarters of an hour: the midnight of every zone is the start of one. The
-- empty model holds requests that were answered without one, and refusals.
-- Writer: work/usage.rs, moving/.
-- Pruned: never: it was paid for, whatever became of its run and its group.
CREATE TABLE usage (
  run_id                INTEGER NOT NULL,
  group_folder          TEXT NOT NULL,
  model                 TEXT NOT NULL CHECK (length(model) <= 96),
  quarter               INTEGER NOT NULL CHECK (quarter % 900000 = 0),
  requests              INTEGER NOT NULL CHECK (requests >= 0),
  errors                INTEGER NOT NULL CHECK (errors BETWEEN 0 AND requests),
  refused               INTEGER NOT NULL CHECK (refused >= 0),
  input_tokens          INTEGER NOT NULL CHECK (input_tokens >= 0),
  cache_creation_tokens INTEGER NOT NULL CHECK (cache_creation_tokens >= 0),
  cache_read_tokens     INTEGER NOT NULL CHECK (cache_read_tokens >= 0),
  output_tokens         INTEGER NOT NULL CHECK (output_tokens >= 0),
  PRIMARY KEY (run_id, model, quarter)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_time ON usage (quarter);
CREATE INDEX usage_by_group ON usage (group_folder, quarter);

-- The newest requests of each run that were not passed on.
-- Writer: work/usage.rs.
-- Pruned: with its run; of each run some of the newest stay.
CREATE TABLE refusals (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id INTEGER NOT NULL,
  asked  TEXT NOT NULL,
  why    TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT;
CREATE INDEX refusals_by_run ON refusals (run_id, id);

-- Use of each quarter by model, added up.
-- Writer: the triggers below.
-- Pruned: with the rows of `usage`.
CREATE TABLE usage_quarters (
  quarter               INTEGER NOT NULL CHECK (quarter % 900000 = 0),
  model                 TEXT NOT NULL,
  requests              INTEGER NOT NULL,
  errors                INTEGER NOT NULL,
  refused               INTEGER NOT NULL,
  input_tokens          INTEGER NOT NULL,
  cache_creation_tokens INTEGER NOT NULL,
  cache_read_tokens     INTEGER NOT NULL,
  output_tokens         INTEGER NOT NULL,
  rows                  INTEGER NOT NULL CHECK (rows >= 0),
  PRIMARY KEY (quarter, model)
) STRICT, WITHOUT ROWID;

-- Use of each day (UTC) by group and model, added up. Lists of many runs read it.
-- Writer: the triggers below.
-- Pruned: with the rows of `usage`.
CREATE TABLE usage_days (
  group_folder          TEXT NOT NULL,
  model                 TEXT NOT NULL,
  day                   INTEGER NOT NULL CHECK (day % 86400000 = 0),
  requests              INTEGER NOT NULL,
  errors                INTEGER NOT NULL,
  refused               INTEGER NOT NULL,
  input_tokens          INTEGER NOT NULL,
  cache_creation_tokens INTEGER NOT NULL,
  cache_read_tokens     INTEGER NOT NULL,
  output_tokens         INTEGER NOT NULL,
  rows                  INTEGER NOT NULL CHECK (rows >= 0),
  PRIMARY KEY (group_folder, model, day)
) STRICT, WITHOUT ROWID;

-- In the transaction that writes or removes.
CREATE TRIGGER usage_sums_insert AFTER INSERT ON usage BEGIN
  INSERT INTO usage_quarters VALUES (new.quarter, new.model, new.requests, new.errors, new.refused, new.input_tokens,
    new.cache_creation_tokens, new.cache_read_tokens, new.output_tokens, 1)
    ON CONFLICT (quarter, model) DO UPDATE SET
      requests = requests + excluded.requests, errors = errors + excluded.errors, refused = refused + excluded.refused,
      input_tokens = input_tokens + excluded.input_tokens,
        cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
        output_tokens = output_tokens + excluded.output_tokens, rows = rows + 1;
  INSERT INTO usage_days VALUES (new.group_folder, new.model, new.quarter - new.quarter % 86400000, new.requests, new.errors,
    new.refused, new.input_tokens, new.cache_creation_tokens, new.cache_read_tokens, new.output_tokens, 1)
    ON CONFLICT (group_folder, model, day) DO UPDATE SET
      requests = requests + excluded.requests, errors = errors + excluded.errors, refused = refused + excluded.refused,
      input_tokens = input_tokens + excluded.input_tokens,
        cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
        output_tokens = output_tokens + excluded.output_tokens, rows = rows + 1;
END;
CREATE TRIGGER usage_sums_update AFTER UPDATE ON usage BEGIN
  UPDATE usage_quarters SET
      requests = requests + new.requests - old.requests, errors = errors + new.errors - old.errors,
        refused = refused + new.refused - old.refused,
      input_tokens = input_tokens + new.input_tokens - old.input_tokens,
      cache_creation_tokens = cache_creation_tokens + new.cache_creation_tokens - old.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens + new.cache_read_tokens - old.cache_read_tokens,
      output_tokens = output_tokens + new.output_tokens - old.output_tokens
    WHERE quarter = new.quarter AND model = new.model;
  UPDATE usage_days SET
      requests = requests + new.requests - old.requests, errors = errors + new.errors - old.errors,
        refused = refused + new.refused - old.refused,
      input_tokens = input_tokens + new.input_tokens - old.input_tokens,
      cache_creation_tokens = cache_creation_tokens + new.cache_creation_tokens - old.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens + new.cache_read_tokens - old.cache_read_tokens,
      output_tokens = output_tokens + new.output_tokens - old.output_tokens
    WHERE group_folder = new.group_folder AND model = new.model AND day = new.quarter - new.quarter % 86400000;
END;
CREATE TRIGGER usage_sums_delete AFTER DELETE ON usage BEGIN
  UPDATE usage_quarters SET
      requests = requests - old.requests, errors = errors - old.errors, refused = refused - old.refused,
      input_tokens = input_tokens - old.input_tokens, cache_creation_tokens = cache_creation_tokens - old.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens - old.cache_read_tokens, output_tokens = output_tokens - old.output_tokens,
        rows = rows - 1
    WHERE quarter = old.quarter AND model = old.model;
  DELETE FROM usage_quarters WHERE quarter = old.quarter AND model = old.model AND rows = 0;
  UPDATE usage_days SET
      requests = requests - old.requests, errors = errors - old.errors, refused = refused - old.refused,
      input_tokens = input_tokens - old.input_tokens, cache_creation_tokens = cache_creation_tokens - old.cache_creation_tokens,
      cache_read_tokens = cache_read_tokens - old.cache_read_tokens, output_tokens = output_tokens - old.output_tokens,
        rows = rows - 1
    WHERE group_folder = old.group_folder AND model = old.model AND day = old.quarter - old.quarter % 86400000;
  DELETE FROM usage_days WHERE group_folder = old.group_folder AND model = old.model
    AND day = old.quarter - old.quarter % 86400000 AND rows = 0;
END;

-- The state of the budget of each group that has one, since a look at it found a change.
-- Writer: work/budgets.rs.
-- Pruned: with its group.
CREATE TABLE budgets (
  group_folder TEXT NOT NULL PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  -- The day, from its start to that of the next one.
  day          INTEGER NOT NULL,
  ends         INTEGER NOT NULL,
  stand        TEXT NOT NULL CHECK (stand IN ('enough', 'near', 'out')),
  -- The part that decides, and its use, as `400 of 500 requests`.
  part         TEXT CHECK (part IN ('requests', 'tokens', 'money', 'minutes')),
  what         TEXT CHECK (length(what) BETWEEN 1 AND 200),
  -- The last end of a time without any left: misses before that were for want of it.
  left_since   INTEGER,
  CHECK (day < ends),
  CHECK ((part IS NULL) = (stand = 'enough') AND (what IS NULL) = (stand = 'enough'))
) STRICT, WITHOUT ROWID;

-- Faults of the host that keep the runs of a group from their work, since a run met one.
-- Writer: work/hindrances.rs.
-- Pruned: once a run does its work, and with its group.
CREATE TABLE hindrances (
  group_folder TEXT NOT NULL PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  what         TEXT NOT NULL CHECK (what = 'no_key' OR what = 'key' OR what = 'not_allowed' OR what = 'no_credit'
               OR what = 'no_image' OR what = 'engine'),
  -- In words, for people.
  why          TEXT NOT NULL CHECK (length(why) BETWEEN 1 AND 1000),
  since        INTEGER NOT NULL,
  -- The number of runs in a row that have met it.
  times        INTEGER NOT NULL CHECK (times >= 1),
  -- Work that has met it rests until then, unless it is put right before.
  until        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- == work: ways out ==
-- Hosts outside.

-- Hosts outside that a group may reach, or may not, on top of the settings; a host without a port stands plainly in `host`.
-- Writer: work/outside.rs, moving/.
-- Pruned: by a person, and with its group.
CREATE TABLE egress_rules (
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  host         TEXT NOT NULL CHECK (length(host) BETWEEN 1 AND 300),
  verdict      TEXT NOT NULL CHECK (verdict IN ('allow', 'deny')),
  at           INTEGER NOT NULL,
  PRIMARY KEY (group_folder, host)
) STRICT, WITHOUT ROWID;

-- The newest places that each group was refused, with the run that asked last. A refusal may come after its group is gone.
-- Writer: work/outside.rs.
-- Pruned: with its group, and before the next group of that name; of each group some of the newest stay.
CREATE TABLE egress_refusals (
  group_folder TEXT NOT NULL,
  place        TEXT NOT NULL CHECK (length(place) BETWEEN 1 AND 300),
  why          TEXT NOT NULL,
  times        INTEGER NOT NULL CHECK (times > 0),
  run_id       INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  PRIMARY KEY (group_folder, place)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER egress_refusals_of_removed AFTER DELETE ON groups
BEGIN DELETE FROM egress_refusals WHERE group_folder = old.folder; END;
CREATE TRIGGER egress_refusals_of_new AFTER INSERT ON groups
BEGIN DELETE FROM egress_refusals WHERE group_folder = new.folder; END;

-- == work: places on the host ==
-- Users, folders and disk space of groups.

-- A number for each folder that ever was a group's: with `[sandbox] uid_base` it makes the agent a user of its own.
-- Writer: the trigger below, work/uids.rs.
-- Pruned: never, for no number is given twice.
CREATE TABLE group_uids (
  number INTEGER PRIMARY KEY,
  folder TEXT NOT NULL UNIQUE,
  -- The user of its last launch; NULL: 1000, as for every group.
  uid    INTEGER CHECK (uid BETWEEN 1 AND 4294967294)
) STRICT;

-- A folder has its number from the moment that it is a group's.
CREATE TRIGGER group_uids_number AFTER INSERT ON groups BEGIN
  INSERT OR IGNORE INTO group_uids (folder) VALUES (new.folder);
END;

-- Groups whose folder had files in it at the last look. One that is missing or empty now was lost, and no empty one takes its
-- place before a person says so.
-- Writer: work/folders.rs.
-- Pruned: with its group, and at a restore.
CREATE TABLE filled_folders (group_folder TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TRIGGER filled_folders_of_removed AFTER DELETE ON groups BEGIN
  DELETE FROM filled_folders WHERE group_folder = old.folder;
END;
CREATE TRIGGER filled_folders_of_new AFTER INSERT ON groups BEGIN
  DELETE FROM filled_folders WHERE group_folder = new.folder;
END;

-- The space of each group on the disk by kind, bytes, as it was weighed last.
-- Writer: work/housekeeping.rs.
-- Pruned: with its group.
CREATE TABLE group_disk (
  group_folder   TEXT PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
  working_folder INTEGER NOT NULL CHECK (working_folder >= 0),
  sessions       INTEGER NOT NULL CHECK (sessions >= 0),
  runs           INTEGER NOT NULL CHECK (runs >= 0),
  media          INTEGER NOT NULL CHECK (media >= 0),
  mailbox        INTEGER NOT NULL CHECK (mailbox >= 0),
  -- Not all of it could be weighed: there may be more.
  partial        INTEGER NOT NULL CHECK (partial IN (0, 1)),
  weighed_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- == work: the operator's page ==
-- Browsers and programs there. Only digests are kept.

-- Sessions of browsers. A row begins as a ticket, which opens one session and is then forgotten.
-- Writer: work/web.rs.
-- Pruned: at its end, and at a restore.
CREATE TABLE web_sessions (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  opened_by  TEXT NOT NULL CHECK (length(opened_by) BETWEEN 1 AND 200),
  ticket     BLOB UNIQUE CHECK (length(ticket) = 32),
  cookie     BLOB UNIQUE CHECK (length(cookie) = 32),
  made_at    INTEGER NOT NULL,
  entered_at INTEGER,
  -- Of the ticket, then of the session.
  ends_at    INTEGER NOT NULL,
  browser    TEXT CHECK (length(browser) <= 200),
  CHECK ((ticket IS NULL) <> (cookie IS NULL)),
  CHECK ((entered_at IS NULL) = (cookie IS NULL))
) STRICT;

-- Tokens of programs, each for one purpose.
-- Writer: work/web_tokens.rs.
-- Pruned: by `g2 web tokens revoke`, and at a restore.
CREATE TABLE web_tokens (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  name    TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 40),
  purpose TEXT NOT NULL CHECK (purpose IN ('metrics', 'operate')),
  digest  BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  made_by TEXT NOT NULL CHECK (length(made_by) BETWEEN 1 AND 200),
  made_at INTEGER NOT NULL,
  -- To within some minutes.
  used_at INTEGER
) STRICT;

-- == neither: sums ==
-- Counts that triggers and the writer keep, in the transaction that writes.

-- Files that rows of `attachments` name, each once, with the number of these rows.
-- Writer: the triggers below.
-- Pruned: with the last row that names it.
CREATE TABLE media (
  digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
  size   INTEGER NOT NULL CHECK (size >= 0),
  named  INTEGER NOT NULL CHECK (named >= 1)
) STRICT, WITHOUT ROWID;

-- The bytes of these files, one row.
-- Writer: the triggers below.
-- Pruned: never.
CREATE TABLE media_size (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  bytes INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT;
INSERT INTO media_size (one, bytes) VALUES (1, 0);

CREATE TRIGGER media_named AFTER INSERT ON attachments WHEN new.digest IS NOT NULL BEGIN
  INSERT INTO media (digest, size, named) VALUES (new.digest, new.size, 1)
  ON CONFLICT (digest) DO UPDATE SET named = named + 1;
END;
CREATE TRIGGER media_named_later AFTER UPDATE OF digest ON attachments WHEN old.digest IS NULL AND new.digest IS NOT NULL BEGIN
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

-- The bytes that each group has put into the store by its commands and records. A row counts with its texts and 512 bytes for
-- its other columns and its place in indexes.
-- Writer: the triggers below.
-- Pruned: never; one row a name of a group.
CREATE TABLE stored (
  group_folder TEXT PRIMARY KEY,
  bytes        INTEGER NOT NULL,
  tasks        INTEGER NOT NULL DEFAULT 0,
  -- The sum of `tasks.bytes`.
  task_bytes   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Of commands: a search is answered after its receipt was written, and long replies are let go of.
CREATE TRIGGER stored_receipt AFTER INSERT ON receipts BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder,
    512 + octet_length(new.name) + coalesce(octet_length(new.request_id), 0) + coalesce(octet_length(new.reason), 0)
    + coalesce(octet_length(new.hint), 0) + coalesce(octet_length(new.reply), 0))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_receipt_gone AFTER DELETE ON receipts BEGIN
  UPDATE stored SET bytes = bytes
    - (512 + octet_length(old.name) + coalesce(octet_length(old.request_id), 0) + coalesce(octet_length(old.reason), 0)
    + coalesce(octet_length(old.hint), 0) + coalesce(octet_length(old.reply), 0))
   WHERE group_folder = old.group_folder;
END;
CREATE TRIGGER stored_receipt_changed AFTER UPDATE OF reason, hint, reply ON receipts BEGIN
  UPDATE stored SET bytes = bytes
    + coalesce(octet_length(new.reason), 0) + coalesce(octet_length(new.hint), 0) + coalesce(octet_length(new.reply), 0)
    - coalesce(octet_length(old.reason), 0) - coalesce(octet_length(old.hint), 0) - coalesce(octet_length(old.reply), 0)
   WHERE group_folder = new.group_folder;
END;

-- Of texts. Pieces that a platform takes are not counted: the row has the whole text.
CREATE TRIGGER stored_outbox AFTER INSERT ON outbox WHEN new.group_folder IS NOT NULL BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 512 + octet_length(new.text))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_outbox_gone AFTER DELETE ON outbox WHEN old.group_folder IS NOT NULL BEGIN
  UPDATE stored SET bytes = bytes - (512 + octet_length(old.text)) WHERE group_folder = old.group_folder;
END;
CREATE TRIGGER stored_outbox_grown AFTER UPDATE OF text ON outbox WHEN new.group_folder IS NOT NULL BEGIN
  UPDATE stored SET bytes = bytes + octet_length(new.text) - octet_length(old.text) WHERE group_folder = new.group_folder;
END;

-- Of sessions that are kept.
CREATE TRIGGER stored_archive AFTER INSERT ON archives BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder,
    512 + octet_length(new.name) + octet_length(new.content))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_archive_changed AFTER UPDATE OF name, content ON archives BEGIN
  UPDATE stored SET bytes = bytes
    + octet_length(new.name) + octet_length(new.content) - octet_length(old.name) - octet_length(old.content)
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_archive_gone AFTER DELETE ON archives BEGIN
  UPDATE stored SET bytes = bytes - (512 + octet_length(old.name) + octet_length(old.content))
   WHERE group_folder = old.group_folder;
END;

-- Of runs: the whole result counts, wherever it is.
CREATE TRIGGER stored_run AFTER INSERT ON runs BEGIN
  INSERT INTO stored (group_folder, bytes)
  VALUES (new.group_folder, 512 + new.result_bytes + new.files_bytes + coalesce(octet_length(new.error), 0))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_run_changed AFTER UPDATE OF result_bytes, files_bytes, error ON runs
WHEN new.result_bytes <> old.result_bytes OR new.files_bytes <> old.files_bytes OR new.error IS NOT old.error BEGIN
  UPDATE stored SET bytes = bytes
    + new.result_bytes + new.files_bytes + coalesce(octet_length(new.error), 0)
    - old.result_bytes - old.files_bytes - coalesce(octet_length(old.error), 0)
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_run_gone AFTER DELETE ON runs BEGIN
  UPDATE stored SET bytes = bytes - (512 + old.result_bytes + old.files_bytes + coalesce(octet_length(old.error), 0))
   WHERE group_folder = old.group_folder;
END;

-- Of files: one of a command counts as its texts do.
CREATE TRIGGER stored_file AFTER INSERT ON attachments WHEN new.group_folder IS NOT NULL BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 512 + new.size)
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_file_gone AFTER DELETE ON attachments WHEN old.group_folder IS NOT NULL BEGIN
  UPDATE stored SET bytes = bytes - (512 + old.size) WHERE group_folder = old.group_folder;
END;

CREATE TRIGGER stored_slots AFTER INSERT ON slots BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 512)
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_slots_gone AFTER DELETE ON slots BEGIN
  UPDATE stored SET bytes = bytes - 512 WHERE group_folder = old.group_folder;
END;

CREATE TRIGGER stored_tool AFTER INSERT ON tools BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 128 + octet_length(new.name))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_tool_gone AFTER DELETE ON tools BEGIN
  UPDATE stored SET bytes = bytes - (128 + octet_length(old.name)) WHERE group_folder = old.group_folder;
END;

-- Of tasks, with their number and their weight: each command that makes or changes one reads one row.
CREATE TRIGGER stored_task AFTER INSERT ON tasks BEGIN
  INSERT INTO stored (group_folder, bytes, tasks, task_bytes) VALUES (new.group_folder,
    512 + octet_length(new.prompt) + coalesce(octet_length(new.script), 0), 1, new.bytes)
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes, tasks = tasks + 1,
    task_bytes = task_bytes + excluded.task_bytes;
END;
CREATE TRIGGER stored_task_changed AFTER UPDATE OF prompt, script, schedule_value ON tasks BEGIN
  UPDATE stored SET bytes = bytes
    + octet_length(new.prompt) + coalesce(octet_length(new.script), 0)
    - octet_length(old.prompt) - coalesce(octet_length(old.script), 0),
    task_bytes = task_bytes + new.bytes - old.bytes
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_task_gone AFTER DELETE ON tasks BEGIN
  UPDATE stored SET bytes = bytes - (512 + octet_length(old.prompt) + coalesce(octet_length(old.script), 0)),
    tasks = tasks - 1, task_bytes = task_bytes - old.bytes
   WHERE group_folder = old.group_folder;
END;

-- Things that happened since the root was made, counted: rows that are pruned stay counted here.
-- Writer: totals.rs.
-- Pruned: never.
CREATE TABLE totals (
  what  TEXT NOT NULL CHECK (what IN ('runs', 'kills', 'tokens', 'requests')),
  label TEXT NOT NULL CHECK (length(label) <= 96),
  kind  TEXT NOT NULL CHECK (length(kind) <= 32),
  count INTEGER NOT NULL CHECK (count >= 0),
  PRIMARY KEY (what, label, kind)
) STRICT, WITHOUT ROWID;
INSERT INTO totals VALUES ('requests', 'all', 'answered', 0), ('requests', 'all', 'failed', 0), ('requests', 'all', 'refused', 0);

-- == neither: audit ==
-- Changes and their authors.

-- Changes and their authors, chained: each row has the hash of the one before it in its own (`domain/shown/audit.rs`).
-- AUTOINCREMENT, so that rows which are missing at the end are found.
-- Writer: audit.rs.
-- Pruned: by age, the oldest first (`audit.rs`); the chain goes on from a mark in `meta`.
CREATE TABLE audit (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  at     INTEGER NOT NULL,
  origin TEXT NOT NULL CHECK (origin IN ('command_line', 'program', 'page', 'chat', 'agent')),
  who    TEXT NOT NULL CHECK (length(who) BETWEEN 1 AND 200),
  what   TEXT NOT NULL CHECK (length(what) BETWEEN 1 AND 600),
  step   TEXT NOT NULL CHECK (step IN ('asked', 'done', 'failed')),
  -- The row that asked for it.
  asked  INTEGER CHECK (step <> 'asked' OR asked IS NULL),
  why    TEXT CHECK (length(why) BETWEEN 1 AND 600),
  -- The group whose agent it was.
  agent  TEXT CHECK ((agent IS NULL) = (origin <> 'agent')),
  prev   BLOB NOT NULL CHECK (length(prev) = 32),
  hash   BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE INDEX audit_agents ON audit (agent, id) WHERE agent IS NOT NULL;
CREATE UNIQUE INDEX audit_ends ON audit (asked) WHERE asked IS NOT NULL;

-- == talk: feed ==
-- The feed of changes of both halves, in the order of the commits (`talk/events.rs`).

-- Changes: the kind, the group, the chat, and in `subject` the id of the row. Numbers go on without AUTOINCREMENT, as the
-- newest event stays: SQLite's table of numbers would be one more page in each commit.
-- Writer: the triggers below.
-- Pruned: by `talk/events.rs`, after a day and once every reader has read them, and above 200 000 of them.
CREATE TABLE events (
  seq          INTEGER PRIMARY KEY,
  -- SQLite's own clock, for a trigger has no other.
  at           INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  -- The most frequent words come first.
  kind         TEXT NOT NULL CHECK (kind = 'command' OR kind = 'say' OR kind = 'said' OR kind = 'inbox' OR kind = 'message'
               OR kind = 'judged' OR kind = 'handed' OR kind = 'finished' OR kind = 'run' OR kind = 'task'
               OR kind = 'session' OR kind = 'unsaid' OR kind = 'cleared' OR kind = 'group' OR kind = 'wiring'
               OR kind = 'chat' OR kind = 'person' OR kind = 'question' OR kind = 'hold'),
  group_folder TEXT,
  chat_jid     TEXT,
  subject      TEXT NOT NULL
) STRICT;

-- A message came in; it is to be judged for a group; it was judged; its file is wanted, or waits no longer.
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
CREATE TRIGGER events_file_wanted AFTER UPDATE OF until ON file_work WHEN old.until IS NULL AND new.until IS NOT NULL BEGIN
  INSERT INTO events (kind, chat_jid, subject) SELECT 'inbox', chat_jid, new.seq FROM messages WHERE seq = new.seq;
END;
CREATE TRIGGER events_file_unheld AFTER DELETE ON file_holds WHEN EXISTS (SELECT 1 FROM inbox WHERE n = old.n) BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) SELECT 'inbox', group_folder, chat_jid, old.seq FROM lanes
    WHERE id = old.lane_id;
END;

-- A batch was given to an agent; it is done, failed or returned.
CREATE TRIGGER events_handed AFTER INSERT ON batches BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    SELECT iif(new.state IN ('handed', 'claimed'), 'handed', 'finished'), group_folder, chat_jid, new.id FROM sessions
      WHERE lane_id = new.lane_id;
END;
CREATE TRIGGER events_batch AFTER UPDATE OF state ON batches
WHEN (new.state IN ('handed', 'claimed')) <> (old.state IN ('handed', 'claimed')) BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    SELECT iif(new.state IN ('handed', 'claimed'), 'handed', 'finished'), group_folder, chat_jid, new.id FROM sessions
      WHERE lane_id = new.lane_id;
END;

-- A lane has another session.
CREATE TRIGGER events_cleared AFTER UPDATE OF generation ON sessions WHEN new.generation <> old.generation BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('cleared', new.group_folder, new.chat_jid, new.lane_id);
END;

-- A run is queued, has a container, is ready, is asked to leave, has ended.
CREATE TRIGGER events_run_new AFTER INSERT ON runs BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('run', new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_run AFTER UPDATE OF status, ready_at, closing_at ON runs
WHEN new.status <> old.status OR new.ready_at IS NOT old.ready_at OR new.closing_at IS NOT old.closing_at BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('run', new.group_folder, new.chat_jid, new.id);
END;

-- Something is to be said to a chat, also at its new address; it was said; it could not be, or nobody knows.
CREATE TRIGGER events_say AFTER INSERT ON outbox BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('say', new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_said AFTER UPDATE OF status ON outbox WHEN new.status <> old.status AND new.status <> 'sending' BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject)
    VALUES (CASE new.status WHEN 'sent' THEN 'said'
      WHEN 'pending' THEN 'say' ELSE 'unsaid' END, new.group_folder, new.chat_jid, new.id);
END;
CREATE TRIGGER events_moved AFTER UPDATE OF chat_jid ON outbox
  WHEN new.chat_jid <> old.chat_jid AND new.status IN ('pending', 'sending', 'unknown') BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('say', new.group_folder, new.chat_jid, new.id);
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

-- Sessions that are kept.
CREATE TRIGGER events_session_new AFTER INSERT ON archives BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('session', new.group_folder, new.id);
END;
CREATE TRIGGER events_session AFTER UPDATE ON archives BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('session', new.group_folder, new.id);
END;
CREATE TRIGGER events_session_gone AFTER DELETE ON archives BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('session', old.group_folder, old.id);
END;

-- A group, also by its rules about hosts outside.
CREATE TRIGGER events_group_new AFTER INSERT ON groups BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', new.folder, new.folder);
END;
CREATE TRIGGER events_group AFTER UPDATE ON groups BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', new.folder, new.folder);
END;
CREATE TRIGGER events_group_gone AFTER DELETE ON groups BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', old.folder, old.folder);
END;
CREATE TRIGGER events_rule_new AFTER INSERT ON egress_rules BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', new.group_folder, new.group_folder);
END;
CREATE TRIGGER events_rule AFTER UPDATE OF verdict ON egress_rules WHEN new.verdict <> old.verdict BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', new.group_folder, new.group_folder);
END;
CREATE TRIGGER events_rule_gone AFTER DELETE ON egress_rules BEGIN
  INSERT INTO events (kind, group_folder, subject) VALUES ('group', old.group_folder, old.group_folder);
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

-- People, their rights, and the people that groups know.
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

-- A question to people: asked, answered, ended.
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
