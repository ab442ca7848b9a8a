-- Groups that were removed and whose mailbox may still be there. No group of that name is made before it is gone.
CREATE TABLE leaving (group_folder TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
