-- Changes and their authors, chained: each row has the hash of the one before it in its own (`domain/host/audit.rs`).
-- AUTOINCREMENT, so that rows which are missing at the end are found.
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
