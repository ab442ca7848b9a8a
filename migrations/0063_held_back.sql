-- What a restore held back until a person decides: messages by the rule that passed them over, texts by a mark.
CREATE INDEX inbox_restored ON inbox (n) WHERE rule = 'restored';
ALTER TABLE outbox ADD COLUMN held_back INTEGER NOT NULL DEFAULT 0 CHECK (held_back IN (0, 1));
CREATE INDEX outbox_held_back ON outbox (id) WHERE held_back = 1;
