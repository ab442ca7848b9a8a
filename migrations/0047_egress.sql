-- Hosts outside that a group may reach, or may not, on top of the settings; a host without a port stands so in `host`.
CREATE TABLE egress_rules (
  group_folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
  host         TEXT NOT NULL CHECK (length(host) BETWEEN 1 AND 300),
  verdict      TEXT NOT NULL CHECK (verdict IN ('allow', 'deny')),
  at           INTEGER NOT NULL,
  PRIMARY KEY (group_folder, host)
) STRICT, WITHOUT ROWID;

-- The newest places that each group was refused, with the run that asked last. What a group that is being removed is refused
-- may come after it is gone.
CREATE TABLE egress_refusals (
  group_folder TEXT NOT NULL,
  place        TEXT NOT NULL CHECK (length(place) BETWEEN 1 AND 300),
  why          TEXT NOT NULL,
  times        INTEGER NOT NULL CHECK (times > 0),
  run_id       INTEGER NOT NULL,
  at           INTEGER NOT NULL,
  PRIMARY KEY (group_folder, place)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER egress_refusals_of_removed AFTER DELETE ON groups
BEGIN DELETE FROM egress_refusals WHERE group_folder = old.folder; END;
CREATE TRIGGER egress_refusals_of_new AFTER INSERT ON groups
BEGIN DELETE FROM egress_refusals WHERE group_folder = new.folder; END;
