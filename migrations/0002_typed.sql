-- What a run was made for, what had a text said, and why a slot did not run are numbers and codes.

-- A run is for a lane or for a task. `for_lane` stays when the lane is gone, and `lane_id` does not.
ALTER TABLE runs ADD COLUMN for_lane INTEGER;
ALTER TABLE runs ADD COLUMN for_task TEXT;
UPDATE runs SET for_lane = CAST(substr(source, 6) AS INTEGER) WHERE source GLOB 'lane:*';
UPDATE runs SET for_task = substr(source, 6) WHERE source GLOB 'task:*';
DROP INDEX runs_slot_once;
DROP INDEX runs_by_source;
DROP INDEX runs_killed;
ALTER TABLE runs DROP COLUMN source;
-- In words, for people and programs.
ALTER TABLE runs ADD COLUMN source TEXT NOT NULL AS (coalesce('task:' || for_task, 'lane:' || for_lane)) VIRTUAL
  CHECK ((for_task IS NULL) = (kind = 'message') AND (for_task IS NULL) = (for_lane IS NOT NULL));
-- A slot's attempt starts once.
CREATE UNIQUE INDEX runs_slot_once ON runs (group_folder, for_task, slot, attempt)
  WHERE slot IS NOT NULL AND started_at IS NOT NULL;
CREATE INDEX runs_by_task ON runs (for_task, group_folder, id) WHERE for_task IS NOT NULL;
CREATE INDEX runs_by_lane ON runs (for_lane, id) WHERE for_lane IS NOT NULL;
-- Kills are counted of a lane or a task.
CREATE INDEX runs_killed ON runs (group_folder, for_lane, for_task, killed_at) WHERE killed_at IS NOT NULL;

-- `cause` is in words, for people and programs. The number is the run's, the command's, the question's or the batch's.
ALTER TABLE outbox ADD COLUMN cause_kind TEXT NOT NULL DEFAULT 'person'
  CHECK (cause_kind = 'record' OR cause_kind = 'command' OR cause_kind = 'notice' OR cause_kind = 'approval'
    OR cause_kind = 'person' OR cause_kind = 'batch_failed' OR cause_kind = 'waited');
ALTER TABLE outbox ADD COLUMN cause_id INTEGER
  CHECK ((cause_id IS NULL) = (cause_kind = 'notice' OR cause_kind = 'person' OR cause_kind = 'waited'));
UPDATE outbox SET cause_kind = 'record', cause_id = CAST(substr(cause, 5) AS INTEGER) WHERE cause GLOB 'run [0-9]*';
UPDATE outbox SET cause_kind = 'command', cause_id = CAST(substr(cause, 9) AS INTEGER) WHERE cause GLOB 'command [0-9]*';
UPDATE outbox SET cause_kind = 'approval', cause_id = CAST(substr(cause, 10) AS INTEGER) WHERE cause GLOB 'approval [0-9]*';
UPDATE outbox SET cause_kind = 'batch_failed', cause_id = CAST(substr(cause, 15) AS INTEGER)
  WHERE cause GLOB 'notice: batch [0-9]* failed';
UPDATE outbox SET cause_kind = 'notice' WHERE cause GLOB 'notice*' AND cause_kind = 'person';
UPDATE outbox SET cause_kind = 'waited' WHERE cause = 'waited';
DROP INDEX outbox_answers;
CREATE INDEX outbox_answers ON outbox (sent_at) WHERE status = 'sent' AND cause_kind = 'record';

ALTER TABLE slots ADD COLUMN code TEXT NOT NULL DEFAULT 'host_down'
  CHECK (code IN ('previous_run', 'rest', 'paused', 'host_down', 'budget', 'outside_window', 'too_many'));
UPDATE slots SET code = CASE reason WHEN 'previous run still queued or running' THEN 'previous_run'
  WHEN 'resting after a failure' THEN 'rest' WHEN 'paused' THEN 'paused' WHEN 'host down' THEN 'host_down'
  WHEN 'budget used up' THEN 'budget' WHEN 'outside the window' THEN 'outside_window' ELSE 'too_many' END;
ALTER TABLE slots DROP COLUMN reason;
ALTER TABLE slots RENAME COLUMN code TO reason;
