-- Cards and reactions that are to be changed on their platforms stand in one table.

-- == talk: outbox ==

DROP TRIGGER amends_closed;
DROP TRIGGER amends_another;
ALTER TABLE amends RENAME TO amended_cards;

-- What of ours on a platform is to be changed there: a card once its question is closed; our reaction to a message once no agent has
-- it in hand, from before it is put.
-- Writer: talk/amends.rs, the triggers below.
-- Pruned: by `talk/amends.rs`, once the platform shows that or it is given up.
CREATE TABLE amends (
  -- A number is used once: work on a row may outlive it.
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  -- A card, and its question.
  outbox_id   INTEGER UNIQUE REFERENCES outbox (id) ON DELETE CASCADE,
  approval_id INTEGER,
  -- A reaction: the batch of its message, the message, and the id of the reaction on the platform, where it has one.
  batch       INTEGER UNIQUE,
  chat_jid    TEXT,
  message_id  TEXT CHECK (length(message_id) BETWEEN 1 AND 512),
  sign_id     TEXT CHECK (length(sign_id) BETWEEN 1 AND 512),
  CHECK ((outbox_id IS NULL) = (approval_id IS NULL) AND (outbox_id IS NULL) = (batch IS NOT NULL)),
  CHECK ((batch IS NULL) = (chat_jid IS NULL) AND (batch IS NULL) = (message_id IS NULL) AND (batch IS NOT NULL OR sign_id IS NULL))
) STRICT;
INSERT INTO amends (outbox_id, approval_id) SELECT outbox_id, approval_id FROM amended_cards ORDER BY outbox_id;
INSERT INTO amends (batch, chat_jid, message_id, sign_id) SELECT batch, chat_jid, message_id, sign_id FROM signs ORDER BY batch;
DROP TABLE amended_cards;
DROP TABLE signs;

-- A question is closed; another card stands for it.
CREATE TRIGGER amends_closed AFTER UPDATE OF state ON approvals
  WHEN old.state = 'pending' AND new.state IN ('approved', 'denied', 'expired') BEGIN
  INSERT OR IGNORE INTO amends (outbox_id, approval_id) SELECT id, new.id FROM outbox WHERE id = new.card AND buttons IS NOT NULL;
END;
CREATE TRIGGER amends_another AFTER UPDATE OF card ON approvals WHEN new.card IS NOT old.card BEGIN
  INSERT OR IGNORE INTO amends (outbox_id, approval_id) SELECT id, new.id FROM outbox WHERE id = old.card AND buttons IS NOT NULL;
END;
