-- Fewer pages in the commit of a command. One index tells the commands of a run, all of them and those that were applied, where
-- there were two; what no run did stands in neither, nor in that of a run's texts.
DROP INDEX receipts_of_run;
DROP INDEX receipts_by_run;
CREATE INDEX receipts_by_run ON receipts (run_id, outcome) WHERE run_id IS NOT NULL;

DROP INDEX outbox_by_run;
CREATE INDEX outbox_by_run ON outbox (run_id, id) WHERE run_id IS NOT NULL;
