-- Since when the host could not have a task's occurrence run that waits; NULL: no occurrence waits for that. While one does,
-- `next_run` is the next try, and `slot` the occurrence.
ALTER TABLE tasks ADD COLUMN held_up_since INTEGER;
-- How often the occurrence came back at no cost, as the daemon died during its run.
ALTER TABLE tasks ADD COLUMN free_returns INTEGER NOT NULL DEFAULT 0 CHECK (free_returns >= 0);

-- How many bytes the files for people have, in `data/runs/<run>/`. They are kept as long as the row is, and count as it does.
ALTER TABLE runs ADD COLUMN files_bytes INTEGER NOT NULL DEFAULT 0 CHECK (files_bytes >= 0);
DROP TRIGGER stored_run;
DROP TRIGGER stored_run_changed;
DROP TRIGGER stored_run_gone;

CREATE TRIGGER stored_run AFTER INSERT ON runs BEGIN
  INSERT INTO stored (group_folder, bytes)
  VALUES (new.group_folder, 512 + new.result_bytes + new.files_bytes + coalesce(octet_length(new.error), 0))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_run_changed AFTER UPDATE OF result_bytes, files_bytes, error ON runs
WHEN new.result_bytes <> old.result_bytes OR new.files_bytes <> old.files_bytes OR new.error IS NOT old.error BEGIN
  UPDATE stored SET bytes = bytes
    + new.result_bytes + new.files_bytes + coalesce(octet_length(new.error), 0)
    - old.result_bytes - old.files_bytes - coalesce(octet_length(old.error), 0)
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_run_gone AFTER DELETE ON runs BEGIN
  UPDATE stored SET bytes = bytes - (512 + old.result_bytes + old.files_bytes + coalesce(octet_length(old.error), 0))
   WHERE group_folder = old.group_folder;
END;
