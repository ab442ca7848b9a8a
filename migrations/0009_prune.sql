-- Of which run a command is: the group's run when its file was claimed, and the one that its token names (`RUN-…`). A run is
-- kept as long as one of its commands is.
CREATE INDEX receipts_of_run ON receipts (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX receipts_of_token ON receipts (CAST(token_id AS INTEGER)) WHERE token_id IS NOT NULL;
