-- How many tasks a group has, and what they weigh, is counted beside how much it has put here. Each command that makes or
-- changes a task asks for it: one row is read, where all tasks of the group were.
ALTER TABLE stored ADD COLUMN tasks INTEGER NOT NULL DEFAULT 0;
-- The sum of `tasks.bytes`.
ALTER TABLE stored ADD COLUMN task_bytes INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER stored_task;
DROP TRIGGER stored_task_changed;
DROP TRIGGER stored_task_gone;

CREATE TRIGGER stored_task AFTER INSERT ON tasks BEGIN
  INSERT INTO stored (group_folder, bytes, tasks, task_bytes) VALUES (new.group_folder,
    512 + octet_length(new.prompt) + coalesce(octet_length(new.script), 0), 1, new.bytes)
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes, tasks = tasks + 1,
    task_bytes = task_bytes + excluded.task_bytes;
END;
CREATE TRIGGER stored_task_changed AFTER UPDATE OF prompt, script, schedule_value ON tasks BEGIN
  UPDATE stored SET bytes = bytes
    + octet_length(new.prompt) + coalesce(octet_length(new.script), 0)
    - octet_length(old.prompt) - coalesce(octet_length(old.script), 0),
    task_bytes = task_bytes + new.bytes - old.bytes
   WHERE group_folder = new.group_folder;
END;
CREATE TRIGGER stored_task_gone AFTER DELETE ON tasks BEGIN
  UPDATE stored SET bytes = bytes - (512 + octet_length(old.prompt) + coalesce(octet_length(old.script), 0)),
    tasks = tasks - 1, task_bytes = task_bytes - old.bytes
   WHERE group_folder = old.group_folder;
END;

-- Each group that has a task has a row.
UPDATE stored SET (tasks, task_bytes) = (SELECT count(*), coalesce(sum(t.bytes), 0) FROM tasks t WHERE t.group_folder = stored.group_folder);
