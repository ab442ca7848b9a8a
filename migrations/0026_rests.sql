-- A rest belongs to what failed: a lane's is in `sessions`, a task's here. While a task rests, its `next_run` is the end of the
-- rest, and `slot` the occurrence that is put off until then.
ALTER TABLE tasks ADD COLUMN rest_until INTEGER;
-- Occurrences that failed in a row, whether its chat was told so, and why the host paused it.
ALTER TABLE tasks ADD COLUMN failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0);
ALTER TABLE tasks ADD COLUMN failures_told INTEGER NOT NULL DEFAULT 0 CHECK (failures_told IN (0, 1));
ALTER TABLE tasks ADD COLUMN paused_for TEXT;
CREATE INDEX tasks_in_trouble ON tasks (n) WHERE rest_until IS NOT NULL OR paused_for IS NOT NULL;

-- Kills are counted of a source.
DROP INDEX runs_killed;
CREATE INDEX runs_killed ON runs (group_folder, source, killed_at) WHERE killed_at IS NOT NULL;
