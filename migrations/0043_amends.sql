-- Cards whose question is closed, or that another card stands for, until the platform shows that or it is given up.
CREATE TABLE amends (
  outbox_id   INTEGER PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
  approval_id INTEGER NOT NULL
) STRICT;
CREATE TRIGGER amends_closed AFTER UPDATE OF state ON approvals WHEN old.state = 'pending' AND new.state IN ('approved', 'denied', 'expired') BEGIN
  INSERT OR IGNORE INTO amends (outbox_id, approval_id) SELECT id, new.id FROM outbox WHERE id = new.card AND buttons IS NOT NULL;
END;
CREATE TRIGGER amends_another AFTER UPDATE OF card ON approvals WHEN new.card IS NOT old.card BEGIN
  INSERT OR IGNORE INTO amends (outbox_id, approval_id) SELECT id, new.id FROM outbox WHERE id = old.card AND buttons IS NOT NULL;
END;
