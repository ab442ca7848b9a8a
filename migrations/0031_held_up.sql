-- Since when the host could not have a task's occurrence run that waits; NULL: no occurrence waits for that. While one does,
-- `next_run` is the next try, and `slot` the occurrence.
ALTER TABLE tasks ADD COLUMN held_up_since INTEGER;
-- How often the occurrence came back at no cost, as the daemon died during its run.
ALTER TABLE tasks ADD COLUMN free_returns INTEGER NOT NULL DEFAULT 0 CHECK (free_returns >= 0);
