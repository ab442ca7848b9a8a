-- The ids of tasks are unique within their group: what another group calls its own is nobody else's business. `bytes` is
-- what a task weighs: what its group wrote of it.
CREATE TABLE tasks_of_groups (
  n              INTEGER PRIMARY KEY AUTOINCREMENT,
  id             TEXT NOT NULL CHECK (length(id) BETWEEN 1 AND 128),
  group_folder   TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  chat_jid       TEXT NOT NULL,
  prompt         TEXT NOT NULL,
  script         TEXT,
  schedule_type  TEXT NOT NULL CHECK (schedule_type IN ('cron', 'interval', 'once')),
  schedule_value TEXT NOT NULL,
  context_mode   TEXT NOT NULL CHECK (context_mode IN ('group', 'isolated')),
  catch_up       TEXT NOT NULL DEFAULT 'latest' CHECK (catch_up IN ('latest', 'all', 'skip')),
  output         TEXT NOT NULL DEFAULT 'history' CHECK (output IN ('history', 'chat')),
  status         TEXT NOT NULL CHECK (status IN ('active', 'paused', 'completed')),
  next_run       INTEGER,
  slot           INTEGER,
  tries          INTEGER NOT NULL DEFAULT 0,
  last_run       INTEGER,
  last_result    TEXT,
  created_at     INTEGER NOT NULL,
  bytes          INTEGER NOT NULL GENERATED ALWAYS AS
                 (length(CAST(prompt AS BLOB)) + coalesce(length(CAST(script AS BLOB)), 0) + length(CAST(schedule_value AS BLOB))) STORED,
  UNIQUE (id, group_folder),
  CHECK (status <> 'completed' OR next_run IS NULL)
) STRICT;
INSERT INTO tasks_of_groups (n, id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode,
                             catch_up, output, status, next_run, slot, tries, last_run, last_result, created_at)
  SELECT n, id, group_folder, chat_jid, prompt, script, schedule_type, schedule_value, context_mode,
         catch_up, output, status, next_run, slot, tries, last_run, last_result, created_at FROM tasks ORDER BY n;
-- No number is given twice, whatever was removed meanwhile.
INSERT INTO sqlite_sequence (name, seq)
  SELECT 'tasks_of_groups', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'tasks_of_groups');
UPDATE sqlite_sequence SET seq = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tasks'), 0)
  WHERE name = 'tasks_of_groups';
DROP TABLE tasks;
ALTER TABLE tasks_of_groups RENAME TO tasks;
CREATE INDEX tasks_due ON tasks (next_run) WHERE status = 'active' AND next_run IS NOT NULL;
CREATE INDEX tasks_due_by_group ON tasks (group_folder, next_run) WHERE status = 'active' AND next_run IS NOT NULL;
-- How many tasks a group has, and of how many bytes, is read from it alone.
CREATE INDEX tasks_by_group ON tasks (group_folder, n, bytes);

-- A run's source, `task:ID` or `lane:ID`, is its group's. One active run of a group is one of each source.
DROP INDEX runs_one_per_source;
DROP INDEX runs_slot_once;
DROP INDEX runs_by_source;
CREATE UNIQUE INDEX runs_slot_once ON runs (group_folder, source, slot, attempt) WHERE slot IS NOT NULL AND started_at IS NOT NULL;
CREATE INDEX runs_by_source ON runs (source, group_folder, id);
