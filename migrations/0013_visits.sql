-- How far a person has read a chat: the newest message, and the newest row of the outbox, that were on the screen.
CREATE TABLE visits (
  chat_jid TEXT NOT NULL,
  user_id  TEXT NOT NULL,
  message  INTEGER NOT NULL CHECK (message >= 0),
  said     INTEGER NOT NULL CHECK (said >= 0),
  at       INTEGER NOT NULL,
  PRIMARY KEY (chat_jid, user_id)
) STRICT, WITHOUT ROWID;
