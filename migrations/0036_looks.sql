-- What a part of a text looks like, beside its words: ranges, or HTML. It is sent so however often it is sent.
ALTER TABLE outbox_parts ADD COLUMN looks TEXT CHECK (text IS NOT NULL OR looks IS NULL);
