-- Archived sessions in the order in which they are listed and searched, without what was said: that is up to a MiB of each.
CREATE INDEX archives_newest ON archives (group_folder, archived_at, id, revision);
DROP INDEX archives_by_group;
