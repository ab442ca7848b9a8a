-- Threads and chats that went are known, and the reason why a text is said without its thread. Accounts say whether they are told all
-- messages of groups.

-- == talk: outbox ==

-- Why the text is said in the chat, without its thread: the thread went.
ALTER TABLE outbox ADD COLUMN thread_gone TEXT CHECK (length(thread_gone) BETWEEN 1 AND 1000);

-- Chats, and threads of them ('' is the chat itself), in which a text could not be said as they were gone: an owner is told once.
-- Writer: crossing/gone.rs.
-- Pruned: by its writer, the oldest above 1000.
CREATE TABLE gone (
  chat_jid   TEXT NOT NULL CHECK (length(chat_jid) BETWEEN 1 AND 512),
  thread     TEXT NOT NULL CHECK (length(thread) <= 512),
  -- When an owner was told last, and the newest message and text of all then: what came from the place, or was said there, after
  -- these shows that it is back.
  told_at    INTEGER NOT NULL,
  message    INTEGER NOT NULL,
  outbox_row INTEGER NOT NULL,
  PRIMARY KEY (chat_jid, thread)
) STRICT, WITHOUT ROWID;

-- == talk: platforms ==

-- Whether the platform tells the account all messages of groups, or of this chat; NULL: it is not known.
ALTER TABLE channel_states ADD COLUMN hears_all INTEGER CHECK (hears_all IN (0, 1));
ALTER TABLE chats ADD COLUMN hears_all INTEGER CHECK (hears_all IN (0, 1));
