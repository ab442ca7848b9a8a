-- The tools that agents began to use, by the record of their run that says so. Of each run the newest 1 000 stay.
CREATE TABLE tools (
  run_id       INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  n            INTEGER NOT NULL CHECK (n > 0),
  group_folder TEXT NOT NULL,
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  at           INTEGER NOT NULL,
  PRIMARY KEY (run_id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX tools_by_time ON tools (at);

-- They count for their group, as everything that its records put here.
CREATE TRIGGER stored_tool AFTER INSERT ON tools BEGIN
  INSERT INTO stored (group_folder, bytes) VALUES (new.group_folder, 128 + octet_length(new.name))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_tool_gone AFTER DELETE ON tools BEGIN
  UPDATE stored SET bytes = bytes - (128 + octet_length(old.name)) WHERE group_folder = old.group_folder;
END;
