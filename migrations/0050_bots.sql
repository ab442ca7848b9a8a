-- The messages of bots in one chat, newest first: how often they have answered an agent, one of them and all of them.
DROP INDEX messages_of_bots;
CREATE INDEX messages_of_bots ON messages (chat_jid, seq) WHERE bot = 1;
