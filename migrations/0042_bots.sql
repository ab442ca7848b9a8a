-- The messages of one bot in one chat, newest first: how often it has answered an agent.
CREATE INDEX messages_of_bots ON messages (chat_jid, sender, seq) WHERE bot = 1;
