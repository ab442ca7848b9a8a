-- A slot may be missed because the group's budget is used up. The table is made anew, as its CHECK can't be changed.
CREATE TABLE slots_new (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  group_folder TEXT NOT NULL,
  task         TEXT NOT NULL,
  first        INTEGER NOT NULL,
  last         INTEGER NOT NULL,
  count        INTEGER NOT NULL CHECK (count >= 1),
  at_least     INTEGER NOT NULL DEFAULT 0 CHECK (at_least IN (0, 1)),
  outcome      TEXT NOT NULL CHECK (outcome IN ('skipped', 'missed')),
  reason       TEXT NOT NULL CHECK (reason IN ('previous run still queued or running', 'resting after a failure', 'paused',
                 'host down', 'budget used up', 'outside the window', 'more than 24 were missed')),
  after_run    INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  CHECK (first <= last)
) STRICT;
INSERT INTO slots_new (id, group_folder, task, first, last, count, at_least, outcome, reason, after_run, at)
  SELECT id, group_folder, task, first, last, count, at_least, outcome, reason, after_run, at FROM slots;
-- No id is given twice, also where the newest rows are gone.
DELETE FROM sqlite_sequence WHERE name = 'slots_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'slots_new', seq FROM sqlite_sequence WHERE name = 'slots';
DROP TABLE slots;
ALTER TABLE slots_new RENAME TO slots;
CREATE INDEX slots_by_task ON slots (group_folder, task, id);
CREATE INDEX slots_by_time ON slots (at);
CREATE TRIGGER stored_slots AFTER INSERT ON slots BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 512)
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_slots_gone AFTER DELETE ON slots BEGIN
  UPDATE stored SET bytes = bytes - 512 WHERE group_folder = old.group_folder;
END;
