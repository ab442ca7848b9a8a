-- A number for each folder that ever was a group's; no row is removed, so none is given twice. With `[sandbox] uid_base` it makes
-- the group's agent a user of its own. `uid` is as whom it was launched last; NULL: as every group's agent, 1000.
CREATE TABLE group_uids (
  number INTEGER PRIMARY KEY,
  folder TEXT NOT NULL UNIQUE,
  uid INTEGER CHECK (uid BETWEEN 1 AND 4294967294)
) STRICT;
INSERT INTO group_uids (folder) SELECT folder FROM groups ORDER BY created_at, folder;
