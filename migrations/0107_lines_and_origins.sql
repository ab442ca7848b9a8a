-- A group's main line is no thread: an agent that was addressed there once does not listen on. Marks of direct chats stay.
UPDATE lanes SET sticky_at = NULL WHERE sticky_at IS NOT NULL
  AND (thread = '' OR (thread = '1' AND (chat_jid LIKE 'tg:%' OR chat_jid LIKE 'tg.%:%')))
  AND EXISTS (SELECT 1 FROM chats c WHERE c.jid = lanes.chat_jid AND c.kind = 'group');

-- Whose words a message is; NULL: its sender wrote it.
ALTER TABLE messages ADD COLUMN origin TEXT CHECK (origin = 'forwarded' OR origin = 'edited');
