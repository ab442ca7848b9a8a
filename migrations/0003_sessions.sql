-- Archived sessions are found by what was said in them, and each transcript is kept once.

DELETE FROM archives WHERE id NOT IN (SELECT max(id) FROM archives GROUP BY group_folder, session_id);
CREATE UNIQUE INDEX archives_once ON archives (group_folder, session_id);

-- Three letters at a time, so that a part of a word is found too, in any script.
CREATE VIRTUAL TABLE archives_text USING fts5 (
  name, content, content = 'archives', content_rowid = 'id', tokenize = 'trigram remove_diacritics 1'
);
INSERT INTO archives_text (rowid, name, content) SELECT id, name, content FROM archives;
CREATE TRIGGER archives_text_in AFTER INSERT ON archives BEGIN
  INSERT INTO archives_text (rowid, name, content) VALUES (new.id, new.name, new.content);
END;
CREATE TRIGGER archives_text_out AFTER DELETE ON archives BEGIN
  INSERT INTO archives_text (archives_text, rowid, name, content) VALUES ('delete', old.id, old.name, old.content);
END;
CREATE TRIGGER archives_text_new AFTER UPDATE ON archives BEGIN
  INSERT INTO archives_text (archives_text, rowid, name, content) VALUES ('delete', old.id, old.name, old.content);
  INSERT INTO archives_text (rowid, name, content) VALUES (new.id, new.name, new.content);
END;

-- What a message of this chat starts with to mention the agent; NULL: the group's trigger.
ALTER TABLE wirings ADD COLUMN trigger TEXT;

-- What the agent said while it ran a task, for the task's history.
ALTER TABLE runs ADD COLUMN result TEXT;
