-- What a question was answered with: the word of the answer, and by itself the group that a chat was connected to. `decision`
-- held both, `connect family`.

-- Where the groups are meanwhile: the check below holds from the moment that it is there.
ALTER TABLE approvals ADD COLUMN connected_to TEXT;
UPDATE approvals SET connected_to = substr(decision, length('connect ') + 1), decision = 'new' WHERE decision GLOB 'connect ?*';
ALTER TABLE approvals ADD COLUMN decided_group TEXT
  CHECK ((decision IS NULL OR decision IN ('allow', 'deny', 'connect', 'new', 'ignore'))
     AND (decided_group IS NOT NULL) = (decision IS 'connect'));
UPDATE approvals SET decision = 'connect', decided_group = connected_to WHERE connected_to IS NOT NULL;
ALTER TABLE approvals DROP COLUMN connected_to;
