-- Sessions of the operator's page. A row begins as a ticket, which opens one session and is then forgotten. Only digests are kept.
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
