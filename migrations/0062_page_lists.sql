-- The operator's page lists the runs of one group, and refused commands, newest first.
CREATE INDEX runs_by_group ON runs (group_folder, id);
CREATE INDEX receipts_refused ON receipts (claim_id) WHERE outcome = 'refused';
