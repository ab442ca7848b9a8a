-- Tokens of programs at the operator's page, each for one purpose. Only digests are kept.
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
