-- What is looked up for every message or by every `status`, so that nothing walks through what only grows.
CREATE INDEX lanes_by_chat ON lanes (chat_jid);
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;
