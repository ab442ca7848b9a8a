-- What accounts tell of their addresses is kept, a person is known by all of their ids, and messages have titles.

-- == talk: platforms ==

-- How the addresses of each account read, as its adapter said last: those of an account that is away are read as before. A row without
-- `told` has what its addresses begin with, and no more.
-- Writer: talk/addresses.rs.
-- Pruned: never; a row an account.
CREATE TABLE account_addresses (
  channel     TEXT PRIMARY KEY CHECK (length(channel) BETWEEN 1 AND 64),
  prefix      TEXT NOT NULL CHECK (length(prefix) BETWEEN 1 AND 64),
  told        INTEGER NOT NULL CHECK (told IN (0, 1)),
  -- JSON: the ends of addresses without a prefix.
  endings     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(endings) AND length(endings) <= 4096),
  -- The expression for chats of one person; '': no address shows it.
  direct      TEXT NOT NULL DEFAULT '' CHECK (length(direct) <= 256),
  -- The thread that is a group's main line; '': there is none.
  main_thread TEXT NOT NULL DEFAULT '' CHECK (length(main_thread) <= 512),
  programs    INTEGER NOT NULL DEFAULT 0 CHECK (programs IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX account_addresses_by_prefix ON account_addresses (prefix);

-- Accounts that a store has already: programs of before knew by themselves how their addresses read.
INSERT INTO account_addresses (channel, prefix, told, endings, direct, main_thread, programs)
  SELECT a.channel, k.prefix || substr(a.channel, length(k.name) + 1), 1, iif(a.channel = k.name, k.endings, '[]'), k.direct, k.main_thread, k.programs
  FROM (SELECT channel FROM chats UNION SELECT channel FROM channel_states) a
  JOIN (SELECT 'telegram' AS name, 'tg' AS prefix, '[]' AS endings, '[0-9]+' AS direct, '1' AS main_thread, 0 AS programs
        UNION ALL SELECT 'discord', 'dc', '[]', '', '', 0
        UNION ALL SELECT 'matrix', 'mx', '[]', '', '', 0
        UNION ALL SELECT 'slack', 'slack', '[]', 'D.*', '', 0
        UNION ALL SELECT 'webhook', 'hook', '[]', '.*', '', 1
        UNION ALL SELECT 'whatsapp', 'whatsapp', '["@g.us","@s.whatsapp.net"]', '.*@s\.whatsapp\.net', '', 0) k
    ON a.channel = k.name OR substr(a.channel, 1, length(k.name) + 1) = k.name || '.'
  WHERE length(a.channel) BETWEEN 1 AND 64;

-- == talk: people ==

-- Ids of people as their accounts told them: those with the same `person` are one person's.
-- Writer: talk/same.rs.
-- Pruned: by its writer, those that were told longest ago above 20000 of an account; first those of nobody whom a group knows.
CREATE TABLE person_ids (
  id       TEXT PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 600),
  channel  TEXT NOT NULL CHECK (length(channel) BETWEEN 1 AND 64),
  -- NULL: the id has no others any more.
  person   INTEGER,
  told_at  INTEGER NOT NULL,
  -- When it was another person's last: rights that it was given before are its own, and not those of the ids beside it.
  moved_at INTEGER,
  -- When the audit said last that it changed.
  said_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX person_ids_by_person ON person_ids (person) WHERE person IS NOT NULL;
CREATE INDEX person_ids_by_channel ON person_ids (channel, told_at);

-- The other ids of the person that has an id; rights that the other one was given after `since` are theirs.
CREATE VIEW same_person AS
  SELECT a.id AS id, b.id AS other, coalesce(b.moved_at, -1) AS since
  FROM person_ids a JOIN person_ids b ON b.person = a.person WHERE b.id <> a.id;

CREATE TRIGGER fed_person_id AFTER INSERT ON person_ids WHEN EXISTS (SELECT 1 FROM users WHERE id = new.id) BEGIN
  INSERT INTO events (kind, subject) VALUES ('person', new.id);
END;
CREATE TRIGGER fed_person_id_changed AFTER UPDATE OF person ON person_ids
  WHEN old.person IS NOT new.person AND EXISTS (SELECT 1 FROM users WHERE id = new.id) BEGIN
  INSERT INTO events (kind, subject) VALUES ('person', new.id);
END;

-- == talk: messages ==

-- What the message stands under: the subject of a mail, the title of a thread.
ALTER TABLE messages ADD COLUMN title TEXT CHECK (length(title) BETWEEN 1 AND 300);
