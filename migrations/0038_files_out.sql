-- Files go to platforms with parts of a text: which of the row's files, from the first to the last of them. Such a part may have
-- no text.
ALTER TABLE outbox_parts ADD COLUMN first_file INTEGER CHECK (first_file >= 1);
ALTER TABLE outbox_parts ADD COLUMN last_file INTEGER CHECK (last_file >= first_file AND (last_file IS NULL) = (first_file IS NULL));
