-- People at the command line become owners on their platforms, and owners are told of problems.

-- == talk: people ==

-- Codes by which somebody becomes an owner or an admin on a platform: they write one to the account, in a chat of their own.
-- Writer: talk/claims.rs.
-- Pruned: by its writer, all but the newest 20.
CREATE TABLE claims (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  -- The digest of the code, which is nowhere itself.
  code         BLOB NOT NULL UNIQUE CHECK (length(code) = 32),
  role         TEXT NOT NULL CHECK (role IN ('owner', 'admin')),
  -- The group of an admin; NULL: all groups.
  group_folder TEXT REFERENCES groups (folder) ON DELETE CASCADE,
  made_by      TEXT NOT NULL,
  made_at      INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  state        TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'used', 'void')),
  -- The user who wrote it, and the chat in which they did.
  used_by      TEXT,
  chat_jid     TEXT,
  ended_at     INTEGER,
  CHECK ((state = 'open') = (ended_at IS NULL) AND (ended_at IS NULL) = (used_by IS NULL) AND (used_by IS NULL) = (chat_jid IS NULL)),
  CHECK (group_folder IS NULL OR role = 'admin')
) STRICT;
CREATE INDEX claims_by_group ON claims (group_folder) WHERE group_folder IS NOT NULL;

-- == talk: platforms ==

-- Who the account is on its platform, as it said last: id, name and handle.
ALTER TABLE channel_states ADD COLUMN own_id TEXT CHECK (length(own_id) BETWEEN 1 AND 512);
ALTER TABLE channel_states ADD COLUMN own_name TEXT CHECK (length(own_name) BETWEEN 1 AND 512);
ALTER TABLE channel_states ADD COLUMN own_handle TEXT CHECK (length(own_handle) BETWEEN 1 AND 512);

-- == talk: notices ==
-- What an owner is told of problems of this machine.

-- Problems as an owner was told of them (`domain/problems/notices.rs`).
-- Writer: crossing/notices.rs.
-- Pruned: by its writer, once a problem is gone for an hour; at most 200 are there.
CREATE TABLE notices (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  -- The name of the check, and what has the problem.
  code  TEXT NOT NULL CHECK (length(code) BETWEEN 1 AND 64),
  about TEXT NOT NULL CHECK (length(about) <= 1000),
  -- How bad it was when it was told.
  severity TEXT NOT NULL CHECK (severity IN ('fail', 'warn')),
  -- The words that tell of its end.
  text  TEXT NOT NULL CHECK (length(text) <= 4000),
  state TEXT NOT NULL CHECK (state IN ('found', 'told', 'gone', 'over')),
  since INTEGER NOT NULL,
  UNIQUE (code, about)
) STRICT;

-- Texts for an owner that go by no account: to a program, or to an address on the web.
-- Writer: crossing/notices.rs.
-- Pruned: by its writer, once it is done, and the oldest above 100.
CREATE TABLE pushes (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  way     TEXT NOT NULL CHECK (way IN ('command', 'webhook')),
  text    TEXT NOT NULL CHECK (length(text) BETWEEN 1 AND 20000),
  made_at INTEGER NOT NULL
) STRICT;

-- Problems that the owner knows of and lets stand: they count no more, and nobody is told.
-- Writer: crossing/notices.rs.
-- Pruned: by its writer, once the problem is gone for ten minutes.
CREATE TABLE noted (
  code  TEXT NOT NULL CHECK (length(code) BETWEEN 1 AND 64),
  about TEXT NOT NULL CHECK (length(about) <= 1000),
  by    TEXT NOT NULL,
  at    INTEGER NOT NULL,
  -- Since when it is not found.
  gone_at INTEGER,
  PRIMARY KEY (code, about)
) STRICT, WITHOUT ROWID;
