-- A reply is at most 1 MiB; longer ones of before, which were lists, are not kept: who asks again is answered anew.
UPDATE receipts SET reply = NULL WHERE length(reply) > 1048576;
-- How much is kept of each group's long replies, which are lists.
CREATE INDEX receipts_long ON receipts (group_folder, claim_id, length(reply)) WHERE length(reply) >= 16384;
-- What all tasks weigh, newest first, without their texts.
CREATE INDEX tasks_by_number ON tasks (n, bytes, group_folder);
