-- What became of the slots of a task that did not run, and why. Those that ran are in `runs`. Slots of a task that are alike and
-- follow one another, with no run between, are one row: `count` of them, or at least that many where not all were counted.
CREATE TABLE slots (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  task         TEXT NOT NULL,
  first        INTEGER NOT NULL,
  last         INTEGER NOT NULL,
  count        INTEGER NOT NULL CHECK (count >= 1),
  at_least     INTEGER NOT NULL DEFAULT 0 CHECK (at_least IN (0, 1)),
  outcome      TEXT NOT NULL CHECK (outcome IN ('skipped', 'missed')),
  reason       TEXT NOT NULL CHECK (reason IN ('previous run still queued or running', 'resting after a failure', 'paused',
                 'host down', 'outside the window', 'more than 24 were missed')),
  -- The newest run of the task when they were noted; 0: none.
  after_run    INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  CHECK (first <= last)
) STRICT;
CREATE INDEX slots_by_task ON slots (group_folder, task, id);
CREATE INDEX slots_by_time ON slots (at);

-- Counted as a run is.
CREATE TRIGGER stored_slots AFTER INSERT ON slots BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 512)
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_slots_gone AFTER DELETE ON slots BEGIN
  UPDATE stored SET bytes = bytes - 512 WHERE group_folder = old.group_folder;
END;

-- How long ago a slot may be for it to be made up for; NULL: 7 days.
ALTER TABLE tasks ADD COLUMN catch_up_window_ms INTEGER CHECK (catch_up_window_ms > 0);
-- The missed slot that `next_run` makes up for; NULL: `next_run` is the slot.
ALTER TABLE tasks ADD COLUMN next_slot INTEGER;
-- What became of each slot up to here is known.
ALTER TABLE tasks ADD COLUMN accounted INTEGER;
-- A slot that was due already when somebody asked for it: it is never too late.
ALTER TABLE tasks ADD COLUMN asked_slot INTEGER;
UPDATE tasks SET asked_slot = next_run WHERE schedule_type = 'once' AND next_run <= created_at;

-- One that was paused during its only run has run.
UPDATE tasks SET status = 'completed' WHERE schedule_type = 'once' AND status = 'paused' AND next_run IS NULL AND slot IS NULL;
