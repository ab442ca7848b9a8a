-- Tools that agents use are kept with their first argument, what came of them and how long they took.

-- == work: runs ==

-- What tells a use from others of its run, and the first argument, without secrets.
ALTER TABLE tools ADD COLUMN call TEXT CHECK (length(call) BETWEEN 1 AND 100);
ALTER TABLE tools ADD COLUMN about TEXT CHECK (length(about) BETWEEN 1 AND 100);
-- What came of it, and how long it took, ms; neither while it runs.
ALTER TABLE tools ADD COLUMN outcome TEXT CHECK (outcome IN ('ok', 'failed'));
ALTER TABLE tools ADD COLUMN took_ms INTEGER CHECK (took_ms >= 0 AND outcome IS NOT NULL OR took_ms IS NULL AND outcome IS NULL);

DROP TRIGGER stored_tool;
CREATE TRIGGER stored_tool AFTER INSERT ON tools BEGIN
  INSERT INTO stored (group_folder, bytes)
    VALUES (new.group_folder, 128 + octet_length(new.name) + coalesce(octet_length(new.call), 0) + coalesce(octet_length(new.about), 0))
  ON CONFLICT (group_folder) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
DROP TRIGGER stored_tool_gone;
CREATE TRIGGER stored_tool_gone AFTER DELETE ON tools BEGIN
  UPDATE stored SET bytes = bytes - (128 + octet_length(old.name) + coalesce(octet_length(old.call), 0) + coalesce(octet_length(old.about), 0))
    WHERE group_folder = old.group_folder;
END;
