-- How many bytes a task's run has said. `result` has the beginning; where it is shorter, the whole is in `data/results/<run>.txt`.
ALTER TABLE runs ADD COLUMN result_bytes INTEGER NOT NULL DEFAULT 0 CHECK (result_bytes >= 0);
DROP TRIGGER stored_run;
DROP TRIGGER stored_run_changed;
DROP TRIGGER stored_run_gone;
UPDATE runs SET result_bytes = octet_length(result) WHERE result IS NOT NULL;

-- The whole counts, wherever it is.
CREATE TRIGGER stored_run AFTER INSERT ON runs BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 512 + new.result_bytes + coalesce(octet_length(new.error), 0))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_run_changed AFTER UPDATE OF result_bytes, error ON runs
WHEN new.result_bytes <> old.result_bytes OR new.error IS NOT old.error BEGIN
  UPDATE stored SET bytes = bytes
    + new.result_bytes + coalesce(octet_length(new.error), 0) - old.result_bytes - coalesce(octet_length(old.error), 0)
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_run_gone AFTER DELETE ON runs BEGIN
  UPDATE stored SET bytes = bytes - (512 + old.result_bytes + coalesce(octet_length(old.error), 0))
   WHERE group_folder = old.group_folder;
END;
