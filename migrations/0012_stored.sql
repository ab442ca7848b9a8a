-- How many bytes each group has put into the store by its commands and records.

-- Whose command or record had it said; NULL: the host said it, or a person did.
ALTER TABLE outbox ADD COLUMN group_folder TEXT;
UPDATE outbox SET group_folder = (SELECT r.group_folder FROM runs r WHERE r.id = outbox.run_id)
 WHERE run_id IS NOT NULL AND (cause GLOB 'command [0-9]*' OR cause GLOB 'run [0-9]* record [0-9]*');
UPDATE outbox SET group_folder = (SELECT r.group_folder FROM receipts r WHERE r.claim_id = CAST(substr(outbox.cause, 9) AS INTEGER))
 WHERE run_id IS NULL AND cause GLOB 'command [0-9]*';

-- Kept by the triggers below, in the transaction that writes. A row counts with its texts and 512 bytes for the rest of it
-- and its place in indexes. A migration that makes one of these tables anew makes its triggers anew.
CREATE TABLE stored (
  group_folder TEXT PRIMARY KEY,
  bytes        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER stored_receipt AFTER INSERT ON receipts BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder,
    512 + octet_length(new.name) + coalesce(octet_length(new.request_id), 0) + coalesce(octet_length(new.reason), 0)
    + coalesce(octet_length(new.hint), 0) + coalesce(octet_length(new.reply), 0))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_receipt_gone AFTER DELETE ON receipts BEGIN
  UPDATE stored SET bytes = bytes
    - (512 + octet_length(old.name) + coalesce(octet_length(old.request_id), 0) + coalesce(octet_length(old.reason), 0)
    + coalesce(octet_length(old.hint), 0) + coalesce(octet_length(old.reply), 0))
   WHERE group_folder = old.group_folder;
END;

CREATE TRIGGER stored_outbox AFTER INSERT ON outbox WHEN new.group_folder IS NOT NULL BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 512 + octet_length(new.text))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_outbox_gone AFTER DELETE ON outbox WHEN old.group_folder IS NOT NULL BEGIN
  UPDATE stored SET bytes = bytes - (512 + octet_length(old.text)) WHERE group_folder = old.group_folder;
END;

CREATE TRIGGER stored_task AFTER INSERT ON tasks BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder,
    512 + octet_length(new.prompt) + coalesce(octet_length(new.script), 0))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_task_changed AFTER UPDATE OF prompt, script ON tasks BEGIN
  UPDATE stored SET bytes = bytes
    + octet_length(new.prompt) + coalesce(octet_length(new.script), 0)
    - octet_length(old.prompt) - coalesce(octet_length(old.script), 0)
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_task_gone AFTER DELETE ON tasks BEGIN
  UPDATE stored SET bytes = bytes - (512 + octet_length(old.prompt) + coalesce(octet_length(old.script), 0))
   WHERE group_folder = old.group_folder;
END;

CREATE TRIGGER stored_archive AFTER INSERT ON archives BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder,
    512 + octet_length(new.name) + octet_length(new.content))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_archive_changed AFTER UPDATE OF name, content ON archives BEGIN
  UPDATE stored SET bytes = bytes
    + octet_length(new.name) + octet_length(new.content) - octet_length(old.name) - octet_length(old.content)
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_archive_gone AFTER DELETE ON archives BEGIN
  UPDATE stored SET bytes = bytes - (512 + octet_length(old.name) + octet_length(old.content))
   WHERE group_folder = old.group_folder;
END;

CREATE TRIGGER stored_run AFTER INSERT ON runs BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder,
    512 + coalesce(octet_length(new.result), 0) + coalesce(octet_length(new.error), 0))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_run_changed AFTER UPDATE OF result, error ON runs
WHEN new.result IS NOT old.result OR new.error IS NOT old.error BEGIN
  UPDATE stored SET bytes = bytes
    + coalesce(octet_length(new.result), 0) + coalesce(octet_length(new.error), 0)
    - coalesce(octet_length(old.result), 0) - coalesce(octet_length(old.error), 0)
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_run_gone AFTER DELETE ON runs BEGIN
  UPDATE stored SET bytes = bytes
    - (512 + coalesce(octet_length(old.result), 0) + coalesce(octet_length(old.error), 0))
   WHERE group_folder = old.group_folder;
END;

INSERT INTO stored (group_folder, bytes)
SELECT group_folder, sum(bytes) FROM (
  SELECT group_folder, 512 + octet_length(name) + coalesce(octet_length(request_id), 0) + coalesce(octet_length(reason), 0)
    + coalesce(octet_length(hint), 0) + coalesce(octet_length(reply), 0) AS bytes FROM receipts UNION ALL
  SELECT group_folder, 512 + octet_length(text) FROM outbox WHERE group_folder IS NOT NULL UNION ALL
  SELECT group_folder, 512 + octet_length(prompt) + coalesce(octet_length(script), 0) FROM tasks UNION ALL
  SELECT group_folder, 512 + octet_length(name) + octet_length(content) FROM archives UNION ALL
  SELECT group_folder, 512 + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) FROM runs
) GROUP BY group_folder;
