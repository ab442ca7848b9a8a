-- How many bytes of files each chat had, minute by minute, both ways. How much it had in the last hour is asked before each file
-- and again as it is queued: at most 61 rows are read, where all files of the hour were.
CREATE TABLE media_minutes (
  chat_jid TEXT NOT NULL,
  -- Since 1970.
  minute   INTEGER NOT NULL,
  -- A file counts as one block of the disk at least.
  bytes    INTEGER NOT NULL,
  PRIMARY KEY (chat_jid, minute)
) STRICT, WITHOUT ROWID;

-- Of each chat there are rows of the newest minute and of the 60 before. What came after a minute that is the newest now, as the
-- clock was set back, counts as of that minute.
CREATE TRIGGER media_minute AFTER INSERT ON attachments BEGIN
  INSERT INTO media_minutes (chat_jid, minute, bytes) VALUES (new.chat_jid, new.at / 60000, max(new.size, 4096)
    + (SELECT coalesce(sum(bytes), 0) FROM media_minutes WHERE chat_jid = new.chat_jid AND minute > new.at / 60000))
  ON CONFLICT (chat_jid, minute) DO UPDATE SET bytes = bytes + excluded.bytes;
  DELETE FROM media_minutes WHERE chat_jid = new.chat_jid AND minute > new.at / 60000;
  DELETE FROM media_minutes WHERE chat_jid = new.chat_jid AND minute < new.at / 60000 - 60;
END;
-- A file that was fetched is longer or shorter than was told. Its minute may be gone, or stand for an earlier one.
CREATE TRIGGER media_minute_changed AFTER UPDATE OF size ON attachments WHEN new.size <> old.size BEGIN
  UPDATE media_minutes SET bytes = bytes + max(new.size, 4096) - max(old.size, 4096)
   WHERE chat_jid = old.chat_jid
     AND minute = min(old.at / 60000, (SELECT max(minute) FROM media_minutes WHERE chat_jid = old.chat_jid));
END;
-- A row that is still there goes with the last file of its minute.
CREATE TRIGGER media_minute_gone AFTER DELETE ON attachments BEGIN
  UPDATE media_minutes SET bytes = bytes - max(old.size, 4096)
   WHERE chat_jid = old.chat_jid
     AND minute = min(old.at / 60000, (SELECT max(minute) FROM media_minutes WHERE chat_jid = old.chat_jid));
  DELETE FROM media_minutes WHERE chat_jid = old.chat_jid AND minute <= old.at / 60000 AND bytes <= 0;
END;

-- Of each chat, as many minutes before its newest file. The clock is not asked: what is older is not read.
INSERT INTO media_minutes (chat_jid, minute, bytes)
  SELECT a.chat_jid, a.at / 60000, sum(max(a.size, 4096)) FROM attachments a
   WHERE a.at / 60000 >= (SELECT max(b.at) FROM attachments b WHERE b.chat_jid = a.chat_jid) / 60000 - 60
   GROUP BY 1, 2;
-- Nothing else read it.
DROP INDEX attachments_lately;
