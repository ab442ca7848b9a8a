-- What a part of a text looks like, beside its words: ranges, or HTML. It is sent so however often it is sent.
ALTER TABLE outbox_parts ADD COLUMN looks TEXT CHECK (text IS NOT NULL OR looks IS NULL);

-- A text that is said before it is whole, and whether it is whole now.
ALTER TABLE outbox ADD COLUMN growth TEXT CHECK (growth IN ('growing', 'grown'));
CREATE INDEX outbox_growing ON outbox (run_id) WHERE growth = 'growing';
CREATE TRIGGER stored_outbox_grown AFTER UPDATE OF text ON outbox WHEN new.group_folder IS NOT NULL BEGIN
  UPDATE stored SET bytes = bytes + octet_length(new.text) - octet_length(old.text) WHERE group_folder = new.group_folder;
END;
