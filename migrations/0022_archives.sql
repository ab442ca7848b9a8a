-- A session may be kept under several names, each as it was when it was archived. The same name again brings it up to date.
DROP INDEX archives_once;
CREATE UNIQUE INDEX archives_once ON archives (group_folder, session_id, name);
