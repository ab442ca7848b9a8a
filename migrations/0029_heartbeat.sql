-- Where a task comes from: somebody asked for it, or it stands in the group's `HEARTBEAT.md`, with which it comes and goes.
ALTER TABLE tasks ADD COLUMN origin TEXT NOT NULL DEFAULT 'asked' CHECK (origin IN ('asked', 'heartbeat'));
CREATE INDEX tasks_of_heartbeat ON tasks (group_folder) WHERE origin = 'heartbeat';
