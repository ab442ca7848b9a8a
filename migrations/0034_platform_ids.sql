-- A part of a text that is several messages on its platform has several ids there: the first stands with the part, the others here.
CREATE TABLE outbox_more_ids (
  chat_jid    TEXT NOT NULL,
  platform_id TEXT NOT NULL CHECK (length(platform_id) BETWEEN 1 AND 512),
  outbox_id   INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
  PRIMARY KEY (chat_jid, platform_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_more_ids_by_row ON outbox_more_ids (outbox_id);

-- A text goes with its chat to the new address: there is something to say there.
CREATE TRIGGER events_moved AFTER UPDATE OF chat_jid ON outbox WHEN new.chat_jid <> old.chat_jid AND new.status IN ('pending', 'sending', 'unknown') BEGIN
  INSERT INTO events (kind, group_folder, chat_jid, subject) VALUES ('say', new.group_folder, new.chat_jid, new.id);
END;
