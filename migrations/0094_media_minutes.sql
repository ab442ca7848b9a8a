-- How many bytes of files each chat had, minute by minute, both ways. How much it had in the last hour is asked before each file
-- and again as it is queued: at most 128 rows are read, where all files of the hour were.
CREATE TABLE media_minutes (
  chat_jid TEXT NOT NULL,
  -- Since 1970.
  minute   INTEGER NOT NULL,
  -- A file counts as one block of the disk at least.
  bytes    INTEGER NOT NULL,
  PRIMARY KEY (chat_jid, minute)
) STRICT, WITHOUT ROWID;

-- A sender states the size of a file: none counts as more than a TiB. Of each chat the rows of the newest 128 minutes
-- stay, as a clock that was wrong for a while may have left some of another hour.
CREATE TRIGGER media_minute AFTER INSERT ON attachments BEGIN
  INSERT INTO media_minutes (chat_jid, minute, bytes) VALUES (new.chat_jid, new.at / 60000, min(max(new.size, 4096), 1 << 40))
  ON CONFLICT (chat_jid, minute) DO UPDATE SET bytes = min(bytes + excluded.bytes, 1 << 60);
  DELETE FROM media_minutes WHERE chat_jid = new.chat_jid
     AND minute < (SELECT minute FROM media_minutes WHERE chat_jid = new.chat_jid ORDER BY minute DESC LIMIT 1 OFFSET 127);
END;
-- A file that was fetched is longer or shorter than was told. Its minute may be gone.
CREATE TRIGGER media_minute_changed AFTER UPDATE OF size ON attachments WHEN new.size <> old.size BEGIN
  UPDATE media_minutes SET bytes = max(bytes + min(max(new.size, 4096), 1 << 40) - min(max(old.size, 4096), 1 << 40), 0)
   WHERE chat_jid = old.chat_jid AND minute = old.at / 60000;
END;
-- A row that is still there goes with the last file of its minute.
CREATE TRIGGER media_minute_gone AFTER DELETE ON attachments BEGIN
  UPDATE media_minutes SET bytes = bytes - min(max(old.size, 4096), 1 << 40)
   WHERE chat_jid = old.chat_jid AND minute = old.at / 60000;
  DELETE FROM media_minutes WHERE chat_jid = old.chat_jid AND minute = old.at / 60000 AND bytes <= 0;
END;

-- Of each chat, an hour before its newest file. The clock is not asked: what is older is not read.
INSERT INTO media_minutes (chat_jid, minute, bytes)
  SELECT a.chat_jid, a.at / 60000, sum(min(max(a.size, 4096), 1 << 40)) FROM attachments a
   WHERE a.at / 60000 >= (SELECT max(b.at) FROM attachments b WHERE b.chat_jid = a.chat_jid) / 60000 - 60
   GROUP BY 1, 2;
-- Nothing else read it.
DROP INDEX attachments_lately;
