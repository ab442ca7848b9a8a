-- What was said about a batch that has ended: the answers of its run in the outbox above `said_from` and up to `said_to`.
ALTER TABLE batches ADD COLUMN said_from INTEGER;
ALTER TABLE batches ADD COLUMN said_to INTEGER CHECK (said_to IS NULL OR said_to >= said_from);
-- The newest row of the outbox that belongs to a batch that the run has finished.
ALTER TABLE runs ADD COLUMN answered INTEGER NOT NULL DEFAULT 0;
-- Of batches that ended before this was kept, what was said until then.
UPDATE batches SET said_from = outbox_mark, said_to = max(outbox_mark, coalesce(
  (SELECT max(o.id) FROM outbox o WHERE o.run_id = batches.run_id AND o.created_at <= batches.ended_at), 0))
WHERE ended_at IS NOT NULL;

-- Whose newest runs failed, and how many in a row: a task's, or with '' all of a group.
CREATE TABLE failing (
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  task         TEXT NOT NULL,
  times        INTEGER NOT NULL CHECK (times >= 1),
  run_id       INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  PRIMARY KEY (group_folder, task)
) STRICT, WITHOUT ROWID;

-- For `status`: what went wrong of late, and when an agent answered last.
CREATE INDEX runs_failed ON runs (ended_at) WHERE status = 'failed';
CREATE INDEX batches_failed ON batches (ended_at) WHERE state = 'failed';
CREATE INDEX outbox_failed ON outbox (created_at) WHERE status = 'failed';
CREATE INDEX outbox_answers ON outbox (sent_at) WHERE status = 'sent' AND cause GLOB 'run [0-9]*';
