-- Groups whose folder had files in it when it was looked at last. One that is missing or empty now was lost, and no empty one
-- takes its place before a person says so.
CREATE TABLE filled_folders (group_folder TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER filled_folders_of_removed AFTER DELETE ON groups BEGIN
  DELETE FROM filled_folders WHERE group_folder = old.folder;
END;
-- What was noted of an earlier group once it was gone.
CREATE TRIGGER filled_folders_of_new AFTER INSERT ON groups BEGIN
  DELETE FROM filled_folders WHERE group_folder = new.folder;
END;
-- Replies that stay in their box at a run's begin: those to commands of no run.
CREATE INDEX receipts_of_no_run ON receipts (group_folder, claim_id) WHERE run_id IS NULL AND request_id IS NOT NULL;
