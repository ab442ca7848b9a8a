-- Channels that are programs of their own.

-- Since when the platform may have the part of a row that is sent next: from before it is sent until it is known.
ALTER TABLE outbox ADD COLUMN begun_at INTEGER;
UPDATE outbox SET begun_at = created_at WHERE status = 'sending';

-- Where the adapter of an account goes on after a restart, in its own words. Written with the event that they came with.
CREATE TABLE channel_cursors (
  instance TEXT NOT NULL CHECK (length(instance) BETWEEN 1 AND 64),
  key      TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
  value    TEXT NOT NULL CHECK (length(value) <= 4096),
  PRIMARY KEY (instance, key)
) STRICT, WITHOUT ROWID;

-- How an account stands: its three lights (`state` is the connection's), a person's part in it, its newest events, and how often
-- its adapter was started.
ALTER TABLE channel_states ADD COLUMN inbound TEXT NOT NULL DEFAULT 'unknown' CHECK (inbound IN ('ok', 'waiting', 'failing', 'refused', 'unknown'));
ALTER TABLE channel_states ADD COLUMN outbound TEXT NOT NULL DEFAULT 'unknown' CHECK (outbound IN ('ok', 'waiting', 'failing', 'refused', 'unknown'));
ALTER TABLE channel_states ADD COLUMN hint TEXT;
ALTER TABLE channel_states ADD COLUMN last_in INTEGER;
ALTER TABLE channel_states ADD COLUMN last_out INTEGER;
ALTER TABLE channel_states ADD COLUMN starts INTEGER NOT NULL DEFAULT 0 CHECK (starts >= 0);
-- Counts up when a person wants it started anew.
ALTER TABLE channel_states ADD COLUMN wanted INTEGER NOT NULL DEFAULT 0 CHECK (wanted >= 0);

-- A chat that has a new address: what is for the old one goes to the new one.
ALTER TABLE chats ADD COLUMN alias_of TEXT CHECK (alias_of <> jid);

-- Written long before it came, while its channel was away: it wakes nobody.
ALTER TABLE messages ADD COLUMN late INTEGER NOT NULL DEFAULT 0 CHECK (late IN (0, 1));
