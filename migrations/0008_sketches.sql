-- Archived sessions are found by reading those that their sketches do not rule out, each group's by themselves. A sketch
-- is of what was said (src/domain/search/sketch.rs); short texts have none. Those of what is there are made after this.

DROP TRIGGER archives_text_in;
DROP TRIGGER archives_text_out;
DROP TRIGGER archives_text_new;
DROP TABLE archives_text;

CREATE TABLE archive_sketches (
  archive_id INTEGER PRIMARY KEY REFERENCES archives (id) ON DELETE CASCADE,
  sketch     BLOB NOT NULL CHECK (length(sketch) > 0)
) STRICT;

-- Newest first, without reading what was said.
DROP INDEX archives_by_group;
CREATE INDEX archives_by_group ON archives (group_folder, archived_at);
