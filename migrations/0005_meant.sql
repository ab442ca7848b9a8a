-- What people see in a chat is kept with its message: the source of a forward, the text that is answered, the words that an edit
-- replaced.

-- == talk: messages ==

-- Of a forwarded message, edited or not: the name of its author, '' if nobody says; and what its sender wrote beside it.
ALTER TABLE messages ADD COLUMN forwarded_from TEXT;
ALTER TABLE messages ADD COLUMN comment TEXT CHECK (comment <> '');
-- Of what it answers: whether the account wrote it, the part, the kind of its file, and the name of its chat if that is another one.
ALTER TABLE messages ADD COLUMN reply_to_self INTEGER NOT NULL DEFAULT 0 CHECK (reply_to_self IN (0, 1));
ALTER TABLE messages ADD COLUMN reply_to_quote TEXT CHECK (reply_to_quote <> '');
ALTER TABLE messages ADD COLUMN reply_to_kind TEXT CHECK (reply_to_kind = 'image' OR reply_to_kind = 'document'
  OR reply_to_kind = 'voice' OR reply_to_kind = 'audio' OR reply_to_kind = 'video');
ALTER TABLE messages ADD COLUMN reply_to_chat TEXT CHECK (reply_to_chat <> '');
-- The instant at which an edit replaced its words last; NULL: they are those that came first.
ALTER TABLE messages ADD COLUMN edited_at INTEGER;
-- The message as people are shown it in one text: the words of its sender, and forwarded ones told apart.
ALTER TABLE messages ADD COLUMN shown TEXT GENERATED ALWAYS AS (coalesce(comment || char(10), '')
  || CASE WHEN origin = 'edited' THEN '[edit] ' ELSE '' END
  || CASE WHEN origin = 'forwarded' OR forwarded_from IS NOT NULL
     THEN '[forwarded' || coalesce(' from ' || nullif(forwarded_from, ''), '') || '] ' ELSE '' END || text) VIRTUAL;
-- Bytes of a file as they were told with it, whatever it has: by them an edit of its message tells it from others. NULL: they are not
-- known.
ALTER TABLE attachments ADD COLUMN told_size INTEGER CHECK (told_size >= 0);
-- What the platform calls a message: edits of it, and answers to it, name it so.
CREATE INDEX messages_by_id ON messages (chat_jid, id);

-- Edits whose words took the place of others: the same edit again changes nothing.
-- Writer: talk/edits.rs.
-- Pruned: with its message; of each message the newest 64 stay.
CREATE TABLE message_edits (
  seq        INTEGER NOT NULL REFERENCES messages (seq) ON DELETE CASCADE,
  replay_key TEXT NOT NULL,
  -- The instant at which it was made, as its platform tells, or at which it came: one that was made before the last is nothing.
  at         INTEGER NOT NULL,
  PRIMARY KEY (seq, replay_key)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER events_message_edited AFTER UPDATE OF edited_at ON messages BEGIN
  INSERT INTO events (kind, chat_jid, subject) VALUES ('message', new.chat_jid, new.seq);
END;

-- == talk: chats ==

-- Messages of a kind that its adapter does not know; events that could not be taken in, and the instant of the last one.
ALTER TABLE channel_states ADD COLUMN unknown_kinds INTEGER NOT NULL DEFAULT 0 CHECK (unknown_kinds >= 0);
ALTER TABLE channel_states ADD COLUMN passed_over INTEGER NOT NULL DEFAULT 0 CHECK (passed_over >= 0);
ALTER TABLE channel_states ADD COLUMN passed_over_at INTEGER;
