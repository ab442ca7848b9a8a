-- A group can have the name of an earlier one. Commands with a claim up to `after_claim` are the earlier group's.
-- A row stays when its group is gone; the next group of that name changes it.
CREATE TABLE begins (
  group_folder TEXT PRIMARY KEY,
  after_claim  INTEGER NOT NULL CHECK (after_claim >= 0)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER begins_with_its_group AFTER INSERT ON groups BEGIN
  INSERT INTO begins (group_folder, after_claim) VALUES (new.folder,
    max(coalesce((SELECT max(claim_id) FROM receipts), 0), coalesce((SELECT max(claim_id) FROM by_hand), 0)))
  ON CONFLICT (group_folder) DO UPDATE SET after_claim = excluded.after_claim;
END;
