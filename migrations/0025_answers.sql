-- A search is answered after its receipt was written, and long replies are let go of: both are counted now.
CREATE TRIGGER stored_receipt_changed AFTER UPDATE OF reason, hint, reply ON receipts BEGIN
  UPDATE stored SET bytes = bytes
    + coalesce(octet_length(new.reason), 0) + coalesce(octet_length(new.hint), 0) + coalesce(octet_length(new.reply), 0)
    - coalesce(octet_length(old.reason), 0) - coalesce(octet_length(old.hint), 0) - coalesce(octet_length(old.reply), 0)
   WHERE group_folder = new.group_folder;
END;

-- Replies that were let go of before stayed in the count.
DELETE FROM stored;
INSERT INTO stored (group_folder, bytes)
SELECT group_folder, sum(bytes) FROM (
  SELECT group_folder, 512 + octet_length(name) + coalesce(octet_length(request_id), 0) + coalesce(octet_length(reason), 0)
    + coalesce(octet_length(hint), 0) + coalesce(octet_length(reply), 0) AS bytes FROM receipts UNION ALL
  SELECT group_folder, 512 + octet_length(text) FROM outbox WHERE group_folder IS NOT NULL UNION ALL
  SELECT group_folder, 512 + octet_length(prompt) + coalesce(octet_length(script), 0) FROM tasks UNION ALL
  SELECT group_folder, 512 + octet_length(name) + octet_length(content) FROM archives UNION ALL
  SELECT group_folder, 512 + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) FROM runs
) GROUP BY group_folder;
