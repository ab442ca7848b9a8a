-- Our reaction to a message that an agent has in hand, from before it is put there until it is taken away. `sign_id`: what the
-- platform calls the reaction, where it calls it anything.
CREATE TABLE signs (
  batch      INTEGER PRIMARY KEY,
  chat_jid   TEXT NOT NULL,
  message_id TEXT NOT NULL CHECK (length(message_id) BETWEEN 1 AND 512),
  sign       TEXT NOT NULL CHECK (length(sign) BETWEEN 1 AND 16),
  sign_id    TEXT CHECK (length(sign_id) BETWEEN 1 AND 512)
) STRICT;
